// Gated DeltaNet: short convolution with its norms, then the recurrence with its gated norm.
#pragma once

#include "ops/cuda/device_types.h"

namespace kv8::cuda {

/// Rows of each sequence in a batch: rows [row_begin[i], row_begin[i] + row_count[i]) in order.
struct SlicesView {
  const std::int32_t* slot;       // [S] of the states; -1: padding, which nothing is done for
  const std::int32_t* row_begin;  // [S]
  const std::int32_t* row_count;  // [S]
  std::int32_t count;             // S
};

inline constexpr std::int32_t kGdnConvKernel = 4;
/// Rows of one slice that the convolution takes at a time; longer slices need kv8_gdn_conv_state
/// after it, because their first rows read what their last rows replace.
inline constexpr std::int32_t kGdnConvRows = 64;

/// Rows of a chunk of the prefill form; chunks are aligned to the start of a slice.
inline constexpr std::int32_t kGdnChunkRows = 64;
/// Value columns that one thread block of the prefill form's scan carries.
inline constexpr std::int32_t kGdnScanColumns = 32;
/// Scratch of one chunk and value head: two matrices over its rows, and two decays per row.
inline constexpr std::int64_t kGdnChunkFloats =
    2 * kGdnChunkRows * kGdnChunkRows + 2 * kGdnChunkRows;

/// Floats of GdnArgs::chunks for `rows` rows in `slices` slices.
inline constexpr std::int64_t GdnChunkFloats(std::int64_t rows, std::int64_t slices,
                                             std::int64_t value_heads) {
  return (rows / kGdnChunkRows + slices) * value_heads * kGdnChunkFloats;
}

/// The contract of ops/gdn.h, in its two forms over the same arguments.
///
/// Shapes   C = 2 key_heads key_dim + value_heads value_dim
/// Limits   conv_kernel kGdnConvKernel; key_dim = value_dim = 32 or 128
/// Numbers  FP32 throughout, the prefill form's products as MmaFp32 has them; sums in an order that
///          depends on nothing but the dimensions and a row's place in its chunk
/// Effects  convolved, conv_state, state, out. The recurrence (Gdn) serves decode and verification;
///          any cut of a sequence into its calls gives the same bits. The chunked form (GdnPrefill)
///          agrees with it to about 1e-5 (NUM-26); its slices begin at multiples of kGdnChunkRows
///          of their sequence and ascend by row_begin; any such cut gives the same bits.
struct GdnArgs {
  SlicesView slices;
  std::int32_t max_rows;  // bound of every row_count
  std::int32_t key_heads, value_heads, key_dim, value_dim;
  float eps;
  const float* qkv;      // [T,C], before the convolution
  const float* z;        // [T,value_heads,value_dim]
  const float* b;        // [T,value_heads]
  const float* a;        // [T,value_heads]
  const float* conv;     // [C,4]
  const float* decay;    // [value_heads] = -exp(A_log)
  const float* dt_bias;  // [value_heads]
  const float* norm;     // [value_dim]
  float* conv_state;     // [slots,3,C], oldest first
  float* state;          // [slots,value_heads,key_dim,value_dim]
  float* convolved;      // [T,C]: q and k normalised, q / sqrt(key_dim)
  float* chunks;         // scratch of GdnPrefill, GdnChunkFloats; 16-byte aligned
  float* out;            // [T,value_heads,value_dim]
};

}  // namespace kv8::cuda
