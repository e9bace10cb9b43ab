// Hyper-connections: how a step reads from and writes to the parallel residual streams.
#pragma once

#include "ops/op_context.h"
#include "tensor/layer_weights.h"
#include "tensor/tensor_view.h"

namespace kv8 {

///   n = GroupedRmsNorm(R; gain)                         per stream
///   d = silu((n . down^T) / streams)
///   g = sigmoid(d . up^T)
///   x = mean over streams of g * n
///   inject = 2 sigmoid((n . inject^T) / streams)        skipped when weights.inject is empty
///
/// Shapes   R [T,W] f32 | x [T,H] | inject [T,streams]
/// Effects  writes x and inject; R is read only.
/// Source   docs/spec/numerics.md; oracle ops/cpu/hyper_connection_ref.cc
using HyperMixFn = void(const OpContext&, ConstMatrix streams, const HyperConnectionWeights&,
                        int stream_count, float eps, Matrix x, Matrix inject);

///   R[t, s*H + d] += inject[t,s] * y[t,d]
///
/// Shapes   y [T,H] | inject [T,S] | R [T,S*H], updated in place
using HyperCombineFn = void(const OpContext&, ConstMatrix y, ConstMatrix inject, Matrix streams);

}  // namespace kv8
