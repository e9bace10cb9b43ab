// Matrix products with weights as stored.
#pragma once

#include <cstddef>
#include <span>

#include "ops/op_context.h"
#include "tensor/tensor_view.h"
#include "tensor/weight.h"

namespace kv8 {

/// Most parts of one group.
inline constexpr std::size_t kMaxLinearParts = 8;

/// One product of a group that shares its input.
struct LinearPart {
  Weight weight;  // [N,K]
  Matrix out;     // [T,N]
};

///   out_i[t,n] = sum_k x[t,k] * weight_i[n,k]        for every part i
///
/// At most kMaxLinearParts.
///
/// Shapes   x [T,K] f32 | weight_i [N_i,K] | out_i [T,N_i] f32
/// Effects  writes every out_i; x and out_i must not overlap.
/// Order    the sum's order depends on K alone: a row's result is the same bits for every T and
///          thread count.
/// Source   docs/spec/numerics.md; oracle ops/cpu/linear_ref.cc
using LinearFn = void(const OpContext&, ConstMatrix x, std::span<const LinearPart> parts);

}  // namespace kv8
