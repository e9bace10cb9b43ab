// Centered RMS norms.
#pragma once

#include <cstdint>
#include <span>

#include "ops/op_context.h"
#include "tensor/tensor_view.h"

namespace kv8 {

///   out[t, g*D + d] = x[t, g*D + d] * rsqrt(mean_d(x[t, g*D + d]^2) + eps) * gain[g*D + d]
///
/// Shapes   x, out [T, G*D] f32 | gain [G*D] f32 = 1 + w
/// Effects  writes out; out may be x.
/// Source   docs/spec/numerics.md; oracle ops/cpu/norm_ref.cc
using GroupedRmsNormFn = void(const OpContext&, ConstMatrix x, std::span<const float> gain,
                              int groups, float eps, Matrix out);

/// Per-head norm and rotary embedding of the first R dimensions of each head (NeoX pairing: j with
/// j + R/2).
///
///   n = x[t,h,:] * rsqrt(mean(x[t,h,:]^2) + eps) * gain
///   out[t,h,j] = n[j] c - n[j + R/2] s,  out[t,h,j + R/2] = n[j + R/2] c + n[j] s    j < R/2
///   out[t,h,d] = n[d]                                                                d >= R
///   c, s = cos, sin(position * inv_freq[j]), the angle in FP32
///
/// Shapes   x: head h of row t starts at x.data + t * x.stride + h * head_stride; D = gain.size()
///          positions [T] | inv_freq [R/2] | out [T, heads*D]
/// Effects  writes out; out may be x when head_stride == D.
/// Source   docs/spec/numerics.md; oracle ops/cpu/norm_ref.cc
struct HeadNormRope {
  std::span<const float> gain;      // [D] = 1 + w
  std::span<const float> inv_freq;  // [R/2]
  float eps = 0;
};
using HeadNormRopeFn = void(const OpContext&, ConstMatrix x, int heads, std::int64_t head_stride,
                            const HeadNormRope&, std::span<const std::int64_t> positions,
                            Matrix out);

}  // namespace kv8
