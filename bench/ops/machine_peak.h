// What this machine can do, measured in the same run: the floors that benchmarks compare with.
#pragma once

#include <cstdint>

namespace kv8 {

/// FP32 multiply-adds per second of one thread, operands in registers, on the best target.
double PeakMacsPerSecond();

/// Bytes per second that one thread reads from a buffer of `bytes`, over and over.
double ReadBytesPerSecond(std::int64_t bytes);

}  // namespace kv8
