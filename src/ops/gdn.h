// Gated DeltaNet: short convolution, gates, delta rule, gated norm.
#pragma once

#include <span>

#include "ops/op_context.h"
#include "tensor/layer_config.h"
#include "tensor/layer_weights.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Tokens per chunk of the prefill form; chunks are aligned to the sequence start.
inline constexpr std::int64_t kGdnChunk = 64;

/// Projections of the layer's input; C = conv channels (q | k | v).
struct GdnInputs {
  ConstMatrix qkv;  // [T,C], before convolution
  ConstMatrix z;    // [T,value_heads*value_dim], output gate
  ConstMatrix b;    // [T,value_heads], beta = sigmoid(b)
  ConstMatrix a;    // [T,value_heads], log decay = decay * softplus(a + dt_bias)
};

/// Rows of one sequence in a batch, and its state.
struct GdnSlice {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
  std::span<float> conv_state;  // [kernel-1, C]: last raw inputs, oldest first; zeros at start
  std::span<float> state;       // [value_heads, key_dim, value_dim] f32; zeros at start
};

///   c = silu(causal depthwise conv of qkv); q, k, v = split; q, k l2-normalised per head (eps 1e-6
///   inside the rsqrt), q / sqrt(key_dim); value head h uses key head h / (value_heads / key_heads)
///   per token:  S <- exp(gamma) S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q
///   out = norm * (o * rsqrt(mean(o^2) + eps)) * sigmoid(z)
///
/// Shapes   out [T,value_heads*value_dim] f32
/// Effects  writes out; updates every slice's conv_state and state.
/// Order    a row's result depends on its sequence alone, not on the batch or thread count.
/// Source   docs/spec/numerics.md; oracle ops/cpu/gdn_ref.cc (recurrent, double precision)
///
/// Two forms: GdnDecode is the recurrence; GdnPrefill may compute 64-token chunks (each slice must
/// begin at a multiple of 64 of its sequence; only its last chunk may be short). Callers may rely
/// on agreement to about 1e-5, not on the same bits. The simd backend runs the recurrence for both:
/// docs/kernels/gdn.md.
using GdnFn = void(const OpContext&, const GdnConfig&, const GdnWeights&, const GdnInputs&,
                   std::span<const GdnSlice> slices, float eps, Matrix out);

}  // namespace kv8
