// RMS norms of one row, compiled once per target.

#if defined(KV8_OPS_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_NORM_INL_H_
#undef KV8_OPS_CPU_NORM_INL_H_
#else
#define KV8_OPS_CPU_NORM_INL_H_
#endif

#include <cmath>

#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

/// out = x * rsqrt(mean(x^2) + eps) * gain; out may be x.
inline void RmsNorm(const float* x, const float* gain, std::int64_t dim, float eps, float* out) {
  const hn::ScalableTag<float> d;
  const float mean = Dot(x, x, dim) / static_cast<float>(dim);
  const float scale = 1.0f / std::sqrt(mean + eps);
  ForEachVector(d, dim, [&](auto tag, std::int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(tag, x + i), hn::Set(tag, scale));
    hn::StoreU(hn::Mul(scaled, hn::LoadU(tag, gain + i)), tag, out + i);
  });
}

/// RmsNorm of each of `groups` parts of `dim` values; gain [groups*dim]; out may be x.
inline void GroupedNorm(const float* x, const float* gain, int groups, std::int64_t dim, float eps,
                        float* out) {
  for (int g = 0; g < groups; ++g) RmsNorm(x + g * dim, gain + g * dim, dim, eps, out + g * dim);
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
