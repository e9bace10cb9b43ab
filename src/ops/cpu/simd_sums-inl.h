// Sums of several vectors at once. Included once per instruction set.

#if defined(KV8_OPS_CPU_SIMD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_SIMD_SUMS_INL_H_
#undef KV8_OPS_CPU_SIMD_SUMS_INL_H_
#else
#define KV8_OPS_CPU_SIMD_SUMS_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// Sum of a vector's groups of four lanes: the first half of them plus the second, repeatedly.
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> FoldTo4(D, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return FoldTo4(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif

/// Writes {sum of a's lanes, of b's, of c's, of e's}. The order of each is a fixed tree.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreSums(D d, V a, V b, V c, V e, float* to) {
#if HWY_TARGET == HWY_SCALAR
  const V all[4] = {a, b, c, e};
  for (int i = 0; i < 4; ++i) hn::StoreU(all[i], d, to + i);
#else
  const hn::RepartitionToWide<D> wide;
  const hn::FixedTag<float, 4> d4;
  const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto low = hn::InterleaveLower(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
  const auto high = hn::InterleaveUpper(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce));
  const auto sums = hn::Add(hn::BitCast(d, low), hn::BitCast(d, high));
  hn::StoreU(FoldTo4(d, sums), d4, to);
#endif
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
