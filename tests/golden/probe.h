// Keeps the last rows that pass by each hook of a forward pass.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "model/observer.h"

namespace kv8::test {

/// Rows in arrival order, at most `keep` of them.
class Tail {
 public:
  explicit Tail(std::size_t keep = 0) : keep_(keep) {}

  void Append(std::span<const float> row) {
    rows_.emplace_back(row.begin(), row.end());
    if (rows_.size() > keep_) rows_.erase(rows_.begin());
  }
  const std::vector<std::vector<float>>& rows() const { return rows_; }

 private:
  std::size_t keep_;
  std::vector<std::vector<float>> rows_;
};

/// What the golden files hold per layer: last 8 keys and values, last 4 streams and selections.
class TailProbe : public ForwardObserver {
 public:
  /// Blocks chosen by one row.
  using Blocks = std::vector<std::int32_t>;

  explicit TailProbe(std::int64_t budget_selection_blocks)
      : budget_(static_cast<std::size_t>(budget_selection_blocks)) {}

  void OnKeyValue(int layer, ConstMatrix k, ConstMatrix v) override {
    Keep(keys, layer, 8, k);
    Keep(values, layer, 8, v);
  }
  void OnStreams(int layer, ConstMatrix rows) override { Keep(streams, layer, 4, rows); }
  void OnSelection(int layer, const BlockSelection& selection) override {
    auto& kept = selections[layer];
    for (std::size_t t = 0; t < selection.counts.size(); ++t) {
      const auto begin = selection.blocks.begin() + static_cast<std::ptrdiff_t>(t * budget_);
      kept.emplace_back(begin, begin + selection.counts[t]);
      if (kept.size() > 4) kept.erase(kept.begin());
    }
  }

  std::map<int, Tail> keys;
  std::map<int, Tail> values;
  std::map<int, Tail> streams;
  std::map<int, std::vector<Blocks>> selections;

 private:
  static void Keep(std::map<int, Tail>& tails, int layer, std::size_t keep, ConstMatrix rows) {
    Tail& tail = tails.try_emplace(layer, keep).first->second;
    for (std::int64_t t = std::max<std::int64_t>(0, rows.rows - static_cast<std::int64_t>(keep));
         t < rows.rows; ++t) {
      tail.Append(rows.row(t));
    }
  }

  std::size_t budget_;
};

}  // namespace kv8::test
