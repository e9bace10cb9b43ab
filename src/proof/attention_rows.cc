#include "proof/attention_rows.h"

#include <algorithm>
#include <cmath>

#include "proof/statistics.h"

namespace kv8 {
namespace {

/// Of two ascending lists.
std::int64_t Common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  std::int64_t common = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    common += a[i] == b[j] ? 1 : 0;
    const bool next_a = a[i] <= b[j];
    if (b[j] <= a[i]) ++j;
    if (next_a) ++i;
  }
  return common;
}

}  // namespace

std::span<const std::int32_t> ObservedLayer::BlocksOf(std::int64_t row) const {
  return std::span(blocks).subspan(static_cast<std::size_t>(row * budget),
                                   static_cast<std::size_t>(counts[static_cast<std::size_t>(row)]));
}

std::span<const float> ObservedLayer::OutputOf(std::int64_t row) const {
  return std::span(output).subspan(static_cast<std::size_t>(row * width),
                                   static_cast<std::size_t>(width));
}

void AttentionSums::Add(const QsaConfig& qsa, std::int64_t first_position, const ObservedLayer& a,
                        const ObservedLayer& b) {
  layer_ = a.number;
  for (std::int64_t row = 0; row < std::ssize(a.counts); ++row) {
    ++rows_;
    const std::int64_t seen = (first_position + row + 1) / qsa.selection_block_tokens;
    if (seen > qsa.budget_selection_blocks) AddChoice(a.BlocksOf(row), b.BlocksOf(row));
    AddOutput(a.OutputOf(row), b.OutputOf(row));
  }
}

void AttentionSums::AddChoice(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const auto common = static_cast<double>(Common(a, b));
  const auto size_a = static_cast<double>(a.size());
  const auto size_b = static_cast<double>(b.size());
  ++choosing_;
  jaccard_ += Ratio(common, size_a + size_b - common);
  recall_ += Ratio(common, size_a);
}

void AttentionSums::AddOutput(std::span<const float> a, std::span<const float> b) {
  double product = 0;
  double squares_a = 0;
  double squares_b = 0;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    product += x * y;
    squares_a += x * x;
    squares_b += y * y;
    difference += (y - x) * (y - x);
  }
  // Two outputs of zeros point the same way.
  const bool zeros = squares_a == 0 && squares_b == 0;
  cosine_ += zeros ? 1 : Ratio(product, std::sqrt(squares_a) * std::sqrt(squares_b));
  difference_squares_ += difference;
  a_squares_ += squares_a;
}

LayerAttention AttentionSums::Mean() const {
  const auto rows = static_cast<double>(rows_);
  const auto choosing = static_cast<double>(choosing_);
  return {.layer = layer_,
          .rows = rows_,
          .choosing = choosing_,
          .jaccard = Ratio(jaccard_, choosing),
          .recall = Ratio(recall_, choosing),
          .cosine = Ratio(cosine_, rows),
          .relative_l2 = std::sqrt(Ratio(difference_squares_, a_squares_))};
}

}  // namespace kv8
