// Counting what a layer hands to the K/V cache.
#pragma once

#include "ops/cuda/device_types.h"
#include "ops/head_magnitudes.h"

namespace kv8::cuda {

/// Log2Bins::Cell of numeric/log_histogram.h, and where its table begins and ends.
struct MagnitudeCell {
  std::uint32_t bin, next_edge;
};
inline constexpr std::uint32_t kMagnitudeLowestBits = 0x33800000u;   // 2^-24
inline constexpr std::uint32_t kMagnitudeHighestBits = 0x477FFFFFu;  // the last below 2^16
inline constexpr int kMagnitudeCellShift = 15;
/// Rows that one thread block of the kernel counts.
inline constexpr std::int32_t kObserveRows = 64;

/// The contract of ops/kv_observe.h; rows of padding do not count.
///
/// Shapes   T = rows.count; key, value [T,heads,dim]; out [2,heads]; max_bits [2,heads] of sequence
///          s at s * max_stride
/// Effects  adds to out, raises max_bits of the rows' sequences
struct KvObserveArgs {
  RowsView rows;
  const float* key;  // after norm and RoPE
  const float* value;
  std::int32_t heads, dim;
  const MagnitudeCell* cells;
  HeadMagnitudes* out;
  std::uint32_t* max_bits;
  std::int64_t max_stride;
};

}  // namespace kv8::cuda
