// The K/V store: rows in parallel, a vector of elements at a time.
#include "ops/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/kv_store_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <atomic>

#include "hwy/highway.h"
#include "ops/cpu/kv_element.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/simd_kv_elements-inl.h"
#include "ops/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {
namespace {

/// QuantizeE4M3 of every element.
StoreLoss StoreQuantized(const float* from, std::int64_t count, float scale, std::byte* to) {
  StoreLoss loss;
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto real = hn::LoadU(d, from + i);
    const auto x = hn::Div(real, hn::Set(d, scale));
    const auto above = hn::Gt(hn::Abs(x), hn::Set(d, kE4M3Max));
    const auto zero =
        hn::And(hn::Le(hn::Abs(x), hn::Set(d, kE4M3FlushMax)), hn::Ne(real, hn::Zero(d)));
    loss.clipped += static_cast<std::uint64_t>(hn::CountTrue(d, above));
    loss.flushed += static_cast<std::uint64_t>(hn::CountTrue(d, zero));
    StoreE4M3(d, x, to + i);
  });
  return loss;
}

void StoreHalves(const float* from, std::int64_t count, std::byte* to) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    StoreFp16(d, hn::LoadU(d, from + i), to + 2 * i);
  });
}

}  // namespace

/// Stores one head's vector of one side at `to`.
StoreLoss StoreVector(KvDType dtype, const float* from, std::int64_t count, float scale,
                      std::byte* to) {
  switch (dtype) {
    case KvDType::kE4M3:
      return StoreQuantized(from, count, scale, to);
    case KvDType::kFp16:
      StoreHalves(from, count, to);
      return {};
    case KvDType::kFp32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return {};
  }
  return {};
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {

HWY_EXPORT(StoreVector);

namespace {

// A row takes about 0.7 us when its places are not in the cache.
constexpr std::int64_t kRowGrain = 2;

StoreLoss StoreSide(const KvPages& pages, KvSide side, std::int64_t position, const float* from) {
  const KvLayout& layout = pages.layout;
  const float scale = side == KvSide::kKey ? pages.k_scale : pages.v_scale;
  StoreLoss loss;
  for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
    loss +=
        HWY_DYNAMIC_DISPATCH(StoreVector)(layout.dtype, from + head * layout.head_dim,
                                          layout.head_dim, scale, pages.At(side, head, position));
  }
  return loss;
}

}  // namespace

void KvStore(const OpContext& ctx, ConstMatrix k, ConstMatrix v, std::span<const QsaSlice> slices,
             SaturationCount* saturation) {
  std::atomic<std::uint64_t> clipped_k{0}, clipped_v{0}, flushed_k{0}, flushed_v{0};
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    StoreLoss mine_k, mine_v;
    for (std::int64_t i = begin; i < end; ++i) {
      const SliceRow<QsaSlice> at = FindRow(slices, i);
      const std::int64_t position = at.slice->first_position + at.offset;
      mine_k += StoreSide(at.slice->kv, KvSide::kKey, position, k.row(at.row()).data());
      mine_v += StoreSide(at.slice->kv, KvSide::kValue, position, v.row(at.row()).data());
    }
    clipped_k += mine_k.clipped;
    clipped_v += mine_v.clipped;
    flushed_k += mine_k.flushed;
    flushed_v += mine_v.flushed;
  };
  ctx.pool.ParallelFor(TotalRows(slices), kRowGrain, body);
  saturation->k += clipped_k;
  saturation->v += clipped_v;
  saturation->flushed_k += flushed_k;
  saturation->flushed_v += flushed_v;
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
