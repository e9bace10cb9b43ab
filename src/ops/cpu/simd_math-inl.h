// Vector functions that several SIMD ops use, compiled once per target. Every function gives the
// same bits for an element wherever it stands, except the reductions, whose order is stated.

#if defined(KV8_OPS_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_SIMD_MATH_INL_H_
#undef KV8_OPS_CPU_SIMD_MATH_INL_H_
#else
#define KV8_OPS_CPU_SIMD_MATH_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 2^n for n in [-126, 127].
template <class D, class VI>
HWY_INLINE hn::Vec<D> PowerOfTwo(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// x, or the bound that it exceeds. minps and maxps let a NaN in their second operand through.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Clamp(D d, V x, float low, float high) {
  return hn::Max(hn::Set(d, low), hn::Min(hn::Set(d, high), x));
}

// y, which was computed from a clamped x, or NaN where x is. Emulated vectors replace a NaN by the
// bound, and must: converting it to an integer is undefined there.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V KeepNaN([[maybe_unused]] D d, [[maybe_unused]] V x, V y) {
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return y;
#else
  return hn::IfThenElse(hn::IsNaN(x), x, y);
#endif
}

// e^x = value * 2^n, value in [0.7, 1.5].
template <class V>
struct ReducedExp {
  V value, n;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE ReducedExp<V> ReduceExp(D d, V x) {
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  // ln 2 in two parts: n times the first, which has 9 significant bits, is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.63p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -0x1.bd0106p-13f), r);
  // (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2, fitted for the least relative error of e^r (3e-9).
  V q = hn::Set(d, 0x1.6a234ep-10f);
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.123a6cp-7f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.5558f4p-5f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.55549p-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.fffffcp-2f));
  return {hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f)), n};
}

/// e^x within 2 ulp; overflow gives infinity, underflow goes through the subnormals to 0, NaN stays
/// NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  // Outside these bounds the result is 0 or infinity anyway, and n leaves the range of an exponent.
  const ReducedExp<V> e = ReduceExp(d, Clamp(d, x, -104.0f, 89.0f));
  // In two factors, since 2^n alone may be subnormal or overflow.
  const auto power = hn::ConvertTo(hn::RebindToSigned<D>(), e.n);
  const auto half = hn::ShiftRight<1>(power);
  return KeepNaN(
      d, x, hn::Mul(hn::Mul(e.value, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(power, half))));
}

/// 1 / (1 + e^-x) within 4 ulp for |x| <= 87; beyond, it keeps the value there.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const ReducedExp<V> e = ReduceExp(d, Clamp(d, hn::Neg(x), -87.0f, 87.0f));
  const V power = PowerOfTwo(d, hn::ConvertTo(hn::RebindToSigned<D>(), e.n));
  return KeepNaN(d, x, hn::Div(one, hn::MulAdd(e.value, power, one)));
}

/// x / (1 + e^-x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Neg(x))));
}

/// Calls body(d, i) with full vectors while they fit in [0, count), then with one-lane vectors.
template <class D, class Body>
HWY_INLINE void ForEachVector(D d, std::int64_t count, const Body& body) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  const hn::CappedTag<float, 1> d1;
  for (; i < count; ++i) body(d1, i);
}

/// sum of a[i] * b[i]. Order: element i goes to chain i mod (4 lanes), the rest (count mod lanes)
/// is added last, one by one; so it depends on count alone.
inline float Dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d);
  auto s1 = hn::Zero(d);
  auto s2 = hn::Zero(d);
  auto s3 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
  }
  for (; i + lanes <= count; i += lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
  }
  const auto total = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  float sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
