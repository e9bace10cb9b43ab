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

/// Rows of one slice that the convolution takes at a time; longer slices need kv8_gdn_conv_state
/// after it, because their first rows read what their last rows replace.
inline constexpr std::int32_t kGdnConvRows = 64;

/// The contract of ops/gdn.h, as two kernels over the same arguments.
///
/// Shapes   C = 2 key_heads key_dim + value_heads value_dim
/// Limits   conv_kernel 4; key_dim = value_dim = 32 or 128
/// Numbers  FP32 throughout; sums in an order that depends on nothing but the dimensions
/// Effects  convolved, conv_state, state, out. The recurrence serves decode, verification and
///          prefill (NUM-26): all give the same bits.
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
  float* out;            // [T,value_heads,value_dim]
};

}  // namespace kv8::cuda
