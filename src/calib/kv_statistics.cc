#include "calib/kv_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace kv8 {
namespace {

constexpr std::uint64_t kInfinityBits = 0x7F800000u;

/// The heads of one side of a layer.
struct Side {
  int layer;
  char name;
  std::span<const HeadMagnitudes> heads;
  SideStatistics& statistics;
};

template <class Visit>
Result<void> ForEachSide(std::span<const HeadMagnitudes> heads,
                         std::vector<LayerStatistics>& layers, Visit&& visit) {
  const std::size_t per_side = heads.size() / layers.size() / 2;
  for (LayerStatistics& layer : layers) {
    KV8_RETURN_IF_ERROR(visit(Side{layer.layer, 'K', heads.first(per_side), layer.k}));
    heads = heads.subspan(per_side);
    KV8_RETURN_IF_ERROR(visit(Side{layer.layer, 'V', heads.first(per_side), layer.v}));
    heads = heads.subspan(per_side);
  }
  return {};
}

Result<void> CheckFinite(const Side& side, const CountedDocument& document) {
  for (const HeadMagnitudes& head : side.heads) {
    if (head.max_bits < kInfinityBits) continue;
    return Error{Code::kCorrupt,
                 fmt::format("layer {} {} has values that are not finite", side.layer, side.name),
                 document.where, "check the weights with `kv8 inspect --check-finite`"};
  }
  return {};
}

void Add(const Side& side, const std::string& category) {
  SideStatistics& to = side.statistics;
  float max_abs = 0;
  std::uint64_t count = 0;
  for (const HeadMagnitudes& head : side.heads) {
    count += head.count;
    to.nonzero_count += head.count - head.zeros;
    max_abs = std::max(max_abs, std::bit_cast<float>(static_cast<std::uint32_t>(head.max_bits)));
    for (std::size_t i = 0; i < to.histogram.bins.size(); ++i) {
      to.histogram.bins[i] += head.bins[i];
    }
  }
  if (count == 0) return;  // the draft layer of a document of one token
  to.count += count;
  to.finite_count += count;
  to.max_abs = std::max(to.max_abs, max_abs);
  float& shard = to.shard_max_abs[category];
  shard = std::max(shard, max_abs);
}

}  // namespace

Result<void> AddMagnitudes(std::span<const HeadMagnitudes> heads, const CountedDocument& document,
                           std::vector<LayerStatistics>& layers) {
  KV8_RETURN_IF_ERROR(
      ForEachSide(heads, layers, [&](const Side& side) { return CheckFinite(side, document); }));
  return ForEachSide(heads, layers, [&](const Side& side) -> Result<void> {
    Add(side, document.category);
    return {};
  });
}

}  // namespace kv8
