// Embedding, norms and hyper-connections: what stands between the matrix products.
#pragma once

#include "ops/cuda/linear.h"

namespace kv8::cuda {

/// The contract of ops/ple.h (EmbedFn): streams[t, s*H + d] = table[ids[t], d].
struct EmbedArgs {
  const std::int32_t* ids;  // [T], each in [0, table.rows)
  Weight table;             // [V,H]
  std::int32_t rows;        // T
  std::int32_t hidden;      // H
  std::int32_t streams;     // S
  float* out;               // [T,S*H]
};

/// The contract of ops/norm.h (GroupedRmsNormFn), [T, groups*dim] dense; out may be x.
struct GroupedNormArgs {
  const float* x;
  const float* gain;  // [groups*dim] = 1 + w
  float* out;
  std::int32_t rows, groups, dim;
  float eps;
};

/// Streams that a hyper-connection mixes: the family has no other number.
inline constexpr std::int32_t kHyperStreams = 4;
/// Parts that the inner dimension of `down` is cut into if it is a multiple of 32 of them: few rows
/// of weights would leave most of a GPU idle.
inline constexpr std::int32_t kHyperSplits = 8;

/// How many times W = `width` values the parts of the low-rank products take; there is room for
/// one.
inline constexpr std::int64_t HyperPartsOfWidth(std::int64_t lowrank, std::int64_t streams,
                                                std::int64_t width) {
  return (kHyperSplits * (lowrank + streams) + width - 1) / width;
}

/// The contracts of ops/hyper_connection.h together: first HyperCombineFn of the step before,
/// unless y is null; then HyperMixFn. Four kernels: combine and norm, down and inject in parts,
/// their sums with the activations, up and the mean over streams.
///
/// Shapes   S streams, H hidden, W = S*H, r = down.rows; all matrices are dense
/// Limits   those of LinearArgs; S = kHyperStreams; H a multiple of 8; r a multiple of 32;
///          kHyperSplits * (r + S) <= W
/// Effects  updates streams when y is given; writes x and, unless inject_weight.data is null,
///          inject, which until then weighs y; scratch is overwritten
/// Order    a sum's order depends on W and r alone
struct HyperMixArgs {
  const float* y;        // [y_parts,T,H], whose sum is added, or null
  float* streams;        // [T,W]
  const float* gain;     // [W] = 1 + w
  Weight down;           // [r,W]
  Weight up;             // [W,r]
  Weight inject_weight;  // [S,W], or null
  std::int32_t rows, stream_count, hidden;
  float eps;
  float* normed;               // scratch [T,W]
  float* parts;                // scratch [T,W]: sums of the parts of down, then of inject_weight
  float* low;                  // scratch [T,r]
  std::uint16_t* rounded;      // scratch [activation_parts,T,W], `normed` as LinearArgs has it
  std::uint16_t* rounded_low;  // scratch [activation_parts,T,r], `low`
  float* x;                    // [T,H]
  float* inject;               // [T,S]
  std::int32_t y_parts = 1;
  std::int32_t activation_parts = 1;  // as in LinearArgs
  std::int32_t splits = 1;            // set by the op
  bool rounds = false;  // likewise: more than kFewRows rows, for which normed and low are rounded
};
/// Warps of a thread block of the last kernel for few rows; each has four dimensions.
inline constexpr std::int32_t kHyperUpWarps = 4, kHyperUpWarpDims = 4;

/// The contract of ops/hyper_connection.h (HyperCombineFn): streams[t, s*H+d] += inject[t,s]
/// y[t,d].
struct HyperCombineArgs {
  const float* y;       // [T,H]
  const float* inject;  // [T,S]
  float* streams;       // [T,S*H]
  std::int32_t rows, stream_count, hidden;
};

}  // namespace kv8::cuda
