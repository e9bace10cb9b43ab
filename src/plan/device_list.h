// Machines, as a list of devices that are described and need not be here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"
#include "plan/rates.h"

namespace kv8 {

struct PlannedDevice {
  std::string name;
  std::int64_t memory = 0;  // bytes, all of it
  Rates rates;
};

/// Most devices of one list.
inline constexpr int kMaxDevices = 1024;

/// "4x24G", "v100-32g", "2xh200,rtx-3090": entries with commas between them, each a size in bytes
/// (ParseBytes) or the name of a GPU, several times with "Nx" before it.
/// Errors: kInvalidArgument, with the names that exist.
Result<std::vector<PlannedDevice>> ParseDevices(std::string_view text);

/// "v100-16g, v100-32g, ...": for help and messages.
std::string KnownDevices();

}  // namespace kv8
