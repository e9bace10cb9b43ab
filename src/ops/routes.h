// Which code runs each op.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kv8/types.h"

namespace kv8 {

struct OpRoute {
  std::string_view op;  // as in OpTable
  std::string code;     // backend and instruction set, such as "simd AVX3_SPR" or "native sm_90"
};

/// Of every op of a pass. `backend` as in EngineOptions. A device that cannot be opened has the
/// backend's name alone.
std::vector<OpRoute> RoutesOf(DeviceKind device, std::string_view backend);

}  // namespace kv8
