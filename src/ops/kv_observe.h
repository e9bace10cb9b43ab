// Counting what a layer hands to the K/V cache: what calibration measures.
#pragma once

#include <cstdint>
#include <span>

#include "ops/head_magnitudes.h"
#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// For each value x of head h of a side: count += 1; zeros += (x == 0);
/// bins[LogHistogram::BinOf(|x|)] += 1 where x is finite and not 0; max_bits = max(max_bits, bits
/// of |x| as FP32): from infinity's on, a value was not finite.
///
/// Shapes   k, v [T,heads*D] f32, as KvStore gets them | out, max_bits [2*heads]: heads of K, then
///          of V
/// Effects  adds to out, raises max_bits
/// Source   docs/spec/scale-pack.md; oracle ops/cpu/kv_observe_ref.cc
using KvObserveFn = void(const OpContext&, int heads, ConstMatrix k, ConstMatrix v,
                         std::span<HeadMagnitudes> out, std::span<std::uint32_t> max_bits);

}  // namespace kv8
