// The machine that plans.
#pragma once

#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"
#include "plan/device_list.h"

namespace kv8 {

struct LocalMachine {
  DeviceKind kind = DeviceKind::kCpu;
  std::vector<PlannedDevice> devices;
};

/// Its GPUs with the memory that is free now, or, where there is none, its CPU with all its memory.
/// Errors: those of opening a GPU that is there.
Result<LocalMachine> ThisMachine();

}  // namespace kv8
