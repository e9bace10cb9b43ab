// Mixture of experts with a gated shared expert.
#pragma once

#include <vector>

#include "ops/op_context.h"
#include "tensor/layer_config.h"
#include "tensor/tensor_view.h"
#include "tensor/weight.h"

namespace kv8 {

/// Weights of one block; E experts of width F, shared expert of width Fs.
struct MoeWeights {
  Weight router;                // [E,H]
  std::vector<Weight> gate_up;  // per expert [2F,H]: F rows gate, then F rows up
  std::vector<Weight> down;     // per expert [H,F]
  Weight shared_gate_proj;      // [Fs,H]
  Weight shared_up_proj;        // [Fs,H]
  Weight shared_down_proj;      // [H,Fs]
  Weight shared_gate;           // [1,H]
};

/// Equal parts of a stack [experts * rows, cols], one per expert.
inline std::vector<Weight> ExpertsOf(const Weight& stack, int experts) {
  const std::int64_t rows = stack.rows / experts;
  std::vector<Weight> weights;
  for (int e = 0; e < experts; ++e) weights.push_back(stack.Rows(e * rows, rows));
  return weights;
}

///   p = softmax(x . router^T); the k largest (ties: lower expert), renormalised to sum 1
///   y = sum over the chosen, in ascending expert order, p_e * down_e(silu(gate_e x) * up_e x)
///   s = shared_down(silu(shared_gate_proj x) * shared_up_proj x)
///   out = y + sigmoid(x . shared_gate^T) * s
///
/// Shapes   x, out [T,H] f32; must not overlap
/// Order    every sum's order depends on the row's own experts alone.
/// Source   docs/spec/numerics.md; oracle ops/cpu/moe_ref.cc
using MoeFn = void(const OpContext&, const MoeConfig&, const MoeWeights&, ConstMatrix x,
                   Matrix out);

}  // namespace kv8
