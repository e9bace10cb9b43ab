// Oracle of the K/V store: one element at a time through the codecs.
#include "ops/cpu/kv_element.h"
#include "ops/cpu/reference.h"

namespace kv8::reference {
namespace {

/// Stores one side of one row.
StoreLoss StoreRow(const KvPages& pages, KvSide side, std::int64_t position,
                   std::span<const float> x) {
  const KvLayout& layout = pages.layout;
  const float scale = side == KvSide::kKey ? pages.k_scale : pages.v_scale;
  StoreLoss loss;
  for (std::int64_t head = 0; head < layout.kv_heads; ++head) {
    std::byte* const to = pages.At(side, head, position);
    for (std::int64_t i = 0; i < layout.head_dim; ++i) {
      const float value = x[static_cast<std::size_t>(head * layout.head_dim + i)];
      StoreKvElement(layout.dtype, value, scale, to, i);
      if (layout.dtype != KvDType::kE4M3) continue;
      if (SaturatesE4M3(value, scale)) ++loss.clipped;
      if (FlushesE4M3(value, scale)) ++loss.flushed;
    }
  }
  return loss;
}

}  // namespace

void KvStore(const OpContext&, ConstMatrix k, ConstMatrix v, std::span<const QsaSlice> slices,
             SaturationCount* saturation) {
  for (const QsaSlice& slice : slices) {
    for (std::int64_t t = 0; t < slice.row_count; ++t) {
      const std::int64_t row = slice.row_begin + t;
      const std::int64_t position = slice.first_position + t;
      const StoreLoss lost_k = StoreRow(slice.kv, KvSide::kKey, position, k.row(row));
      const StoreLoss lost_v = StoreRow(slice.kv, KvSide::kValue, position, v.row(row));
      saturation->k += lost_k.clipped;
      saturation->v += lost_v.clipped;
      saturation->flushed_k += lost_k.flushed;
      saturation->flushed_v += lost_v.flushed;
    }
  }
}

}  // namespace kv8::reference
