// Oracle of the choice of selection blocks: scores in double, a full sort.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/cpu/kv_element.h"
#include "ops/cpu/reference.h"

namespace kv8::reference {
namespace {

/// Score of one selection block; NaN ranks below every number.
double Score(const QsaConfig& config, const IndexPages& index, std::int64_t block,
             std::span<const float> iq) {
  const KvDType dtype = index.layout.fp32 ? KvDType::kFp32 : KvDType::kFp16;
  const std::byte* const key = index.At(block);
  double score = 0;
  for (std::int64_t head = 0; head < config.index_heads; ++head) {
    double dot = 0;
    for (std::int64_t i = 0; i < config.index_dim; ++i) {
      dot += double{iq[static_cast<std::size_t>(head * config.index_dim + i)]} *
             LoadKvElement(dtype, key, i);
    }
    score += dot < 0.0 ? 0.0 : dot;
  }
  return std::isnan(score) ? -std::numeric_limits<double>::infinity() : score;
}

/// Writes the chosen blocks, ascending, and returns how many.
std::int32_t SelectRow(const QsaConfig& config, const IndexPages& index, std::int64_t complete,
                       std::span<const float> iq, std::span<std::int32_t> out) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(complete));
  std::iota(order.begin(), order.end(), 0);
  const std::int64_t count = std::min<std::int64_t>(complete, config.budget_selection_blocks);
  if (complete > count) {
    std::vector<double> scores;
    for (const std::int32_t block : order) scores.push_back(Score(config, index, block, iq));
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
  }
  std::copy_n(order.begin(), count, out.begin());
  std::sort(out.begin(), out.begin() + count);
  return static_cast<std::int32_t>(count);
}

}  // namespace

void SelectBlocks(const OpContext&, const QsaConfig& config, ConstMatrix iq,
                  std::span<const QsaSlice> slices, const BlockSelection& selection) {
  const auto budget = static_cast<std::size_t>(config.budget_selection_blocks);
  for (const QsaSlice& slice : slices) {
    for (std::int64_t t = 0; t < slice.row_count; ++t) {
      const auto row = static_cast<std::size_t>(slice.row_begin + t);
      const std::int64_t complete = (slice.first_position + t + 1) / config.selection_block_tokens;
      selection.counts[row] = SelectRow(config, slice.index, complete, iq.row(slice.row_begin + t),
                                        selection.blocks.subspan(row * budget, budget));
    }
  }
}

}  // namespace kv8::reference
