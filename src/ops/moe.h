// Mixture of experts with a gated shared expert.
#pragma once

#include "ops/op_context.h"
#include "tensor/layer_config.h"
#include "tensor/layer_weights.h"
#include "tensor/tensor_view.h"

namespace kv8 {

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
