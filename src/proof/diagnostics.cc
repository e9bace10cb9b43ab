#include "proof/diagnostics.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "proof/divergence.h"
#include "proof/statistics.h"

namespace kv8 {
namespace {

constexpr std::int64_t kFirstBucket = 256;

/// The first length of the bucket.
std::int64_t BucketBegin(std::int64_t length) {
  std::int64_t end = kFirstBucket;
  while (end <= length) end *= 4;
  return end == kFirstBucket ? 0 : end / 4;
}

struct Agreement {
  double positions = 0;
  double same = 0;
  double kept = 0;
  double kl = 0;
  double tokens = 0;
  double nll_a = 0;
  double nll_b = 0;

  Json ToJson() const {
    if (positions == 0) return Json::object();
    return {{"positions", positions},
            {"same_top_token", Ratio(same, positions)},
            {"kl_positions", kept},
            {"kl", Ratio(kl, kept)}};
  }
};

void AddPosition(const TextScore& a, const TextScore& b, std::size_t position, Agreement& to) {
  to.positions += 1;
  to.same += a.argmax[position] == b.argmax[position] ? 1 : 0;
  const std::size_t kept = position / kTopStride;
  if (position % kTopStride != 0 || kept >= a.top.size() || kept >= b.top.size()) return;
  to.kept += 1;
  to.kl += KlLowerBound(a.top[kept], b.top[kept]);
}

struct Drafts {
  double steps = 0;
  double drafted = 0;
  double accepted = 0;

  void Add(const ItemOutput& output) {
    steps += static_cast<double>(output.steps);
    for (const std::int64_t count : output.drafted_at) drafted += static_cast<double>(count);
    for (const std::int64_t count : output.accepted_at) accepted += static_cast<double>(count);
  }
};

struct DraftPair {
  Drafts a;
  Drafts b;
  int outputs = 0;

  Json ToJson() const {
    return {{"outputs", outputs},
            {"acceptance_a", Ratio(a.accepted, a.drafted)},
            {"acceptance_b", Ratio(b.accepted, b.drafted)},
            {"tokens_per_step_a", Ratio(a.accepted + a.steps, a.steps)},
            {"tokens_per_step_b", Ratio(b.accepted + b.steps, b.steps)}};
  }
};

/// The rows of a table, its key in front.
template <class Key, class Value, class NameOf>
Json Rows(const std::map<Key, Value>& table, const char* key, const NameOf& name_of) {
  Json rows = Json::array();
  for (const auto& [of, value] : table) {
    Json row = value.ToJson();
    row[key] = name_of(of);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string Same(const std::string& name) {
  return name;
}

Json DraftRows(const ArmOutputs& a, const ArmOutputs& b) {
  std::vector<std::array<double, 4>> at;
  const auto add = [&at](const ItemOutput& output, std::size_t column) {
    at.resize(std::max(at.size(), output.drafted_at.size()));
    for (std::size_t i = 0; i < output.drafted_at.size(); ++i) {
      at[i][column] += static_cast<double>(output.drafted_at[i]);
      at[i][column + 1] += static_cast<double>(output.accepted_at[i]);
    }
  };
  for (const ItemOutput& output : a.items) add(output, 0);
  for (const ItemOutput& output : b.items) add(output, 2);
  Json rows = Json::array();
  for (std::size_t i = 0; i < at.size(); ++i) {
    rows.push_back({{"draft", i + 1},
                    {"drafted_a", at[i][0]},
                    {"drafted_b", at[i][2]},
                    {"acceptance_a", Ratio(at[i][1], at[i][0])},
                    {"acceptance_b", Ratio(at[i][3], at[i][2])}});
  }
  return rows;
}

Json RetrievalRows(const std::vector<EvaluationItem>& items, const ArmOutputs& a,
                   const ArmOutputs& b) {
  struct Cell {
    int pairs = 0;
    int a = 0;
    int b = 0;
  };
  std::map<std::pair<std::int64_t, double>, Cell> cells;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].depth || items[i].tool) continue;
    Cell& cell = cells[{BucketBegin(std::ssize(items[i].ids)), *items[i].depth}];
    ++cell.pairs;
    cell.a += a.items[i].right ? 1 : 0;
    cell.b += b.items[i].right ? 1 : 0;
  }
  Json rows = Json::array();
  for (const auto& [key, cell] : cells) {
    rows.push_back({{"context", LengthBucket(key.first)},
                    {"depth", key.second},
                    {"pairs", cell.pairs},
                    {"right_a", cell.a},
                    {"right_b", cell.b}});
  }
  return rows;
}

void AddLosses(const CacheLosses& losses, std::map<int, KvCacheInfo::Layer>& layers) {
  for (const KvCacheInfo::Layer& layer : losses.layers) {
    KvCacheInfo::Layer& sum = layers[layer.layer];
    sum.layer = layer.layer;
    sum.draft = layer.draft;
    sum.saturated_k += layer.saturated_k;
    sum.saturated_v += layer.saturated_v;
    sum.flushed_k += layer.flushed_k;
    sum.flushed_v += layer.flushed_v;
  }
}

}  // namespace

std::string LengthBucket(std::int64_t length) {
  const std::int64_t begin = BucketBegin(length);
  const std::int64_t end = begin == 0 ? kFirstBucket : begin * 4;
  return std::to_string(begin) + "-" + std::to_string(end - 1);
}

void AddScoreDiagnostics(const std::vector<EvaluationItem>& items, const ArmScores& a,
                         const ArmScores& b, Json& to) {
  std::map<std::int64_t, Agreement> by_position;
  std::map<std::string, Agreement> by_category;
  std::size_t text = 0;
  for (const EvaluationItem& item : items) {
    if (!item.IsText()) continue;
    const TextScore& of_a = a.texts[text];
    const TextScore& of_b = b.texts[text++];
    Agreement& category = by_category[item.category];
    category.tokens += static_cast<double>(item.ids.size() - 1);
    category.nll_a += of_a.nll;
    category.nll_b += of_b.nll;
    const std::size_t positions = std::min(of_a.argmax.size(), of_b.argmax.size());
    for (std::size_t i = 0; i < positions; ++i) {
      AddPosition(of_a, of_b, i, category);
      AddPosition(of_a, of_b, i, by_position[BucketBegin(static_cast<std::int64_t>(i))]);
    }
  }
  to["by_position"] = Rows(by_position, "positions_from_to", LengthBucket);
  to["by_category"] = Rows(by_category, "category", Same);
  for (Json& row : to["by_category"]) {
    const Agreement& category = by_category[row["category"].get<std::string>()];
    row["nll_a"] = Ratio(category.nll_a, category.tokens);
    row["nll_b"] = Ratio(category.nll_b, category.tokens);
  }
}

void AddOutputDiagnostics(const std::vector<EvaluationItem>& items, const ArmOutputs& a,
                          const ArmOutputs& b, Json& to) {
  std::map<std::string, DraftPair> by_category;
  std::map<std::int64_t, DraftPair> by_context;
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (DraftPair* pair : {&by_category[items[i].category],
                            &by_context[BucketBegin(std::ssize(PromptOf(items[i])))]}) {
      ++pair->outputs;
      pair->a.Add(a.items[i]);
      pair->b.Add(b.items[i]);
    }
  }
  to["retrieval"] = RetrievalRows(items, a, b);
  if (!a.Drafted() || !b.Drafted()) return;
  to["acceptance_by_category"] = Rows(by_category, "category", Same);
  to["acceptance_by_context"] = Rows(by_context, "context", LengthBucket);
  to["acceptance_by_draft"] = DraftRows(a, b);
}

Json LossRows(const ArmResults& arm) {
  std::map<int, KvCacheInfo::Layer> layers;
  if (arm.scores) AddLosses(arm.scores->losses, layers);
  if (arm.outputs) AddLosses(arm.outputs->losses, layers);
  Json rows = Json::array();
  for (const auto& [number, layer] : layers) {
    rows.push_back({{"layer", layer.layer},
                    {"draft", layer.draft},
                    {"clipped_k", layer.saturated_k},
                    {"clipped_v", layer.saturated_v},
                    {"zeroed_k", layer.flushed_k},
                    {"zeroed_v", layer.flushed_v}});
  }
  return rows;
}

}  // namespace kv8
