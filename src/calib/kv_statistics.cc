#include "calib/kv_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace kv8 {
namespace {

constexpr std::uint32_t kInfinityBits = 0x7F800000u;

/// Of [layers, 2, kv heads] values what belongs to one side: visit(layer, name, values, side).
template <class T, class Visit>
void ForEachSide(std::span<const T> values, std::vector<LayerStatistics>& layers, Visit&& visit) {
  const std::size_t per_side = values.size() / layers.size() / 2;
  for (LayerStatistics& layer : layers) {
    visit(layer.layer, 'K', values.first(per_side), layer.k);
    visit(layer.layer, 'V', values.subspan(per_side, per_side), layer.v);
    values = values.subspan(2 * per_side);
  }
}

std::uint32_t Most(std::span<const std::uint32_t> max_bits) {
  return *std::ranges::max_element(max_bits);
}

}  // namespace

Result<void> AddDocument(std::span<const std::uint32_t> max_bits, const CountedDocument& document,
                         int target_layers, MeasuredDocuments& measured) {
  std::string bad;
  ForEachSide(max_bits, measured.layers, [&](int layer, char name, auto heads, auto&) {
    if (bad.empty() && Most(heads) >= kInfinityBits) bad = fmt::format("layer {} {}", layer, name);
  });
  if (!bad.empty()) {
    return Error{Code::kCorrupt, bad + " has values that are not finite", document.where,
                 "check the weights with `kv8 inspect --check-finite`"};
  }
  ForEachSide(max_bits, measured.layers, [&](int layer, char, auto heads, SideStatistics& side) {
    // The draft layer sees one row less, so of a document of one token none.
    if (document.tokens == 1 && layer == target_layers) return;
    const auto max_abs = std::bit_cast<float>(Most(heads));
    side.max_abs = std::max(side.max_abs, max_abs);
    float& shard = side.shard_max_abs[document.category];
    shard = std::max(shard, max_abs);
  });
  measured.documents += 1;
  measured.tokens += document.tokens;
  return {};
}

void AddMagnitudes(std::span<const HeadMagnitudes> heads, std::vector<LayerStatistics>& layers) {
  ForEachSide(heads, layers, [](int, char, auto of_side, SideStatistics& side) {
    for (const HeadMagnitudes& head : of_side) {
      side.count += head.count;
      side.finite_count += head.count;
      side.nonzero_count += head.count - head.zeros;
      for (std::size_t i = 0; i < side.histogram.bins.size(); ++i) {
        side.histogram.bins[i] += head.bins[i];
      }
    }
  });
}

}  // namespace kv8
