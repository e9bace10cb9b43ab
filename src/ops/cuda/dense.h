// Embedding, norms and hyper-connections: what stands between the matrix products.
#pragma once

#include "ops/cuda/linear.h"

namespace kv8::cuda {

/// The contract of ops/ple.h (EmbedFn): streams[t, s*H + d] = table[ids[t], d].
struct EmbedArgs {
  const std::int32_t* ids;  // [T], each in [0, table.rows)
  WeightArray table;        // [V,H]
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

/// The contract of ops/hyper_connection.h (HyperMixFn), as norm, products and two small kernels.
///
/// Shapes   S streams, H hidden, W = S*H, r = down.rows; all matrices are dense
/// Limits   those of LinearArgs; r a multiple of 32
/// Effects  writes x and, unless inject_weight.data is null, inject; scratch is overwritten
struct HyperMixArgs {
  const float* streams;       // [T,W]
  const float* gain;          // [W] = 1 + w
  WeightArray down;           // [r,W]
  WeightArray up;             // [W,r]
  WeightArray inject_weight;  // [S,W], or null
  std::int32_t rows, stream_count, hidden;
  float eps;
  float* normed;  // scratch [T,W]
  float* low;     // scratch [T,r]
  float* gates;   // scratch [T,W]
  float* x;       // [T,H]
  float* inject;  // [T,S]
};

/// The contract of ops/hyper_connection.h (HyperCombineFn): streams[t, s*H+d] += inject[t,s]
/// y[t,d].
struct HyperCombineArgs {
  const float* y;       // [T,H]
  const float* inject;  // [T,S]
  float* streams;       // [T,S*H]
  std::int32_t rows, stream_count, hidden;
};

}  // namespace kv8::cuda
