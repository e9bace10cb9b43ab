// Rates of this machine's CPU, by kv8's own products.
#pragma once

#include <cstdint>

#include "kv8/error.h"
#include "plan/device_list.h"

namespace kv8 {

struct MeasureOptions {
  int threads = 1;
  std::int64_t cols = 2560;        // of the matrices: the model's width
  std::int64_t outputs = 640;      // of a matrix that many rows meet: an expert's width
  std::int64_t bytes = 256 << 20;  // that a step reads: caches of the CPU count as they will
};

/// Takes about half a second. The best of several trials: other processes can only slow one down.
/// Errors: kUnsupported for a CPU without a backend.
Result<Rates> MeasureCpu(const MeasureOptions& options);

}  // namespace kv8
