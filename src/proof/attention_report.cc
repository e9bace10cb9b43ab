#include "proof/attention_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kv8 {
namespace {

std::string MarginName(double margin) {
  return fmt::format("{:.2f}", margin);
}

/// Raises or lowers a figure to the worst of its layers.
template <class Worse>
void Keep(Figures& figures, const char* name, double value, Worse worse) {
  const auto [figure, is_new] = figures.try_emplace(name, value);
  if (!is_new && worse(value, figure->second)) figure->second = value;
}

Json LayerRow(const LayerAttention& layer) {
  const bool chooses = layer.choosing > 0;
  return {{"layer", layer.layer},
          {"rows", layer.rows},
          {"choosing_rows", layer.choosing},
          {"jaccard", chooses ? Json(layer.jaccard) : Json()},
          {"recall", chooses ? Json(layer.recall) : Json()},
          {"cosine", layer.cosine},
          {"relative_l2", layer.relative_l2}};
}

void AddFigures(const LayerAttention& layer, Figures& figures) {
  if (layer.choosing > 0) {
    Keep(figures, "attention.jaccard_least", layer.jaccard, std::less());
    Keep(figures, "attention.recall_least", layer.recall, std::less());
  }
  Keep(figures, "attention.cosine_least", layer.cosine, std::less());
  Keep(figures, "attention.relative_l2_most", layer.relative_l2, std::greater());
}

Json SideRow(const StoredSide& side) {
  Json heads = Json::array();
  for (std::size_t head = 0; head < side.clipped.size(); ++head) {
    Json row = {{"head", head}, {"values", side.values}};
    for (std::size_t i = 0; i < kMargins.size(); ++i) {
      row["clipped_at_" + MarginName(kMargins[i])] = side.clipped[head][i];
    }
    heads.push_back(std::move(row));
  }
  return {{"layer", side.layer},
          {"side", side.value ? "v" : "k"},
          {"heads", std::move(heads)},
          {"codes", side.codes}};
}

}  // namespace

void AddAttention(const AttentionResult& result, Comparison& to) {
  Json layers = Json::array();
  for (const LayerAttention& layer : result.layers) {
    layers.push_back(LayerRow(layer));
    AddFigures(layer, to.figures);
  }
  to.diagnostics["attention"] = std::move(layers);
  Json stored = Json::array();
  for (const StoredSide& side : result.sides) {
    stored.push_back(SideRow(side));
    for (const auto& head : side.clipped) {
      for (std::size_t i = 0; i < kMargins.size(); ++i) {
        to.figures["margin." + MarginName(kMargins[i]) + "_clipped"] +=
            static_cast<double>(head[i]);
      }
    }
  }
  to.diagnostics["stored"] = std::move(stored);
}

Json ScaleRows(const ModelSpec& spec, const KvScales& a, const KvScales& b) {
  std::vector<Json> rows;
  const auto add = [&rows](int layer, const char* side, float of_a, float of_b) {
    rows.push_back(
        {{"layer", layer}, {"side", side}, {"a", of_a}, {"b", of_b}, {"ratio", of_b / of_a}});
  };
  const auto add_layer = [&](int layer, const KvScale& of_a, const KvScale& of_b) {
    add(layer, "k", of_a.k, of_b.k);
    add(layer, "v", of_a.v, of_b.v);
  };
  for (std::size_t i = 0; i < a.target.size(); ++i) {
    add_layer(spec.LayerOfKv(static_cast<int>(i)), a.target[i], b.target[i]);
  }
  if (a.draft && b.draft) add_layer(spec.layer_count(), *a.draft, *b.draft);
  const auto change = [](const Json& row) {
    return -std::abs(std::log(row["ratio"].get<double>()));
  };
  std::ranges::stable_sort(rows, {}, change);
  return rows;
}

}  // namespace kv8
