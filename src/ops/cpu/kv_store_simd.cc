// The K/V store: rows in parallel, a vector of elements at a time.
#include "ops/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/kv_store_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <atomic>

#include "hwy/highway.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_pages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {
namespace {

/// QuantizeE4M3 of every element; returns how many clipped.
std::uint64_t StoreQuantized(const float* from, std::int64_t count, float scale, std::byte* to) {
  std::uint64_t clipped = 0;
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto x = hn::Div(hn::LoadU(d, from + i), hn::Set(d, scale));
    const auto above = hn::Gt(hn::Abs(x), hn::Set(d, kE4M3Max));
    clipped += static_cast<std::uint64_t>(hn::CountTrue(d, above));
    StoreE4M3(d, x, to + i);
  });
  return clipped;
}

void StoreHalves(const float* from, std::int64_t count, std::byte* to) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    StoreFp16(d, hn::LoadU(d, from + i), to + 2 * i);
  });
}

}  // namespace

/// Stores one head's vector of one side at `to`; returns how many elements clipped.
std::uint64_t StoreVector(KvDType dtype, const float* from, std::int64_t count, float scale,
                          std::byte* to) {
  switch (dtype) {
    case KvDType::kE4M3:
      return StoreQuantized(from, count, scale, to);
    case KvDType::kFp16:
      StoreHalves(from, count, to);
      return 0;
    case KvDType::kFp32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return 0;
  }
  return 0;
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {

HWY_EXPORT(StoreVector);

namespace {

// A row takes about 0.7 us when its pages are not in the cache.
constexpr std::int64_t kRowGrain = 2;

std::uint64_t StoreSide(const KvPages& pages, KvSide side, std::int64_t position,
                        const float* from) {
  const KvLayout& layout = pages.layout;
  const float scale = side == KvSide::kKey ? pages.k_scale : pages.v_scale;
  std::uint64_t clipped = 0;
  for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
    clipped +=
        HWY_DYNAMIC_DISPATCH(StoreVector)(layout.dtype, from + head * layout.head_dim,
                                          layout.head_dim, scale, pages.At(side, head, position));
  }
  return clipped;
}

}  // namespace

void KvStore(const OpContext& ctx, ConstMatrix k, ConstMatrix v, std::span<const QsaSlice> slices,
             SaturationCount* saturation) {
  std::atomic<std::uint64_t> clipped_k{0}, clipped_v{0};
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    SaturationCount mine;
    for (std::int64_t i = begin; i < end; ++i) {
      const SliceRow<QsaSlice> at = FindRow(slices, i);
      const std::int64_t position = at.slice->first_position + at.offset;
      mine.k += StoreSide(at.slice->kv, KvSide::kKey, position, k.row(at.row()).data());
      mine.v += StoreSide(at.slice->kv, KvSide::kValue, position, v.row(at.row()).data());
    }
    clipped_k += mine.k;
    clipped_v += mine.v;
  };
  ctx.pool.ParallelFor(TotalRows(slices), kRowGrain, body);
  saturation->k += clipped_k;
  saturation->v += clipped_v;
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
