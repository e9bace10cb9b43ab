#include <utility>

#include "proof/attention.h"
#include "proof/json_objects.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kMostLayers = 1'000'000;

/// An array of counts with exactly as many entries as `to`.
template <std::size_t N>
bool ReadCounts(const Json& array, std::array<std::uint64_t, N>* to) {
  if (!array.is_array() || array.size() != N) return false;
  for (std::size_t i = 0; i < N; ++i) {
    const auto count = AsCount(array[i]);
    if (!count) return false;
    (*to)[i] = *count;
  }
  return true;
}

Result<void> ReadLayer(const JsonFields& fields, LayerAttention* layer) {
  KV8_ASSIGN_OR_RETURN(const std::uint64_t number, fields.Count("layer", kMostLayers));
  layer->layer = static_cast<int>(number);
  KV8_ASSIGN_OR_RETURN(layer->rows, fields.Count("rows"));
  KV8_ASSIGN_OR_RETURN(layer->choosing, fields.Count("choosing"));
  KV8_ASSIGN_OR_RETURN(layer->jaccard, fields.Number("jaccard"));
  KV8_ASSIGN_OR_RETURN(layer->recall, fields.Number("recall"));
  KV8_ASSIGN_OR_RETURN(layer->cosine, fields.Number("cosine"));
  KV8_ASSIGN_OR_RETURN(layer->relative_l2, fields.Number("relative_l2"));
  return {};
}

Result<void> ReadSide(const JsonFields& fields, StoredSide* side) {
  KV8_ASSIGN_OR_RETURN(const std::uint64_t number, fields.Count("layer", kMostLayers));
  side->layer = static_cast<int>(number);
  KV8_ASSIGN_OR_RETURN(side->value, fields.Bool("value"));
  KV8_ASSIGN_OR_RETURN(side->values, fields.Count("values"));
  KV8_ASSIGN_OR_RETURN(const Json* const heads, fields.Array("clipped"));
  for (const Json& head : *heads) {
    if (!ReadCounts(head, &side->clipped.emplace_back())) {
      return fields.Bad("clipped", "has not one count per margin");
    }
  }
  KV8_ASSIGN_OR_RETURN(const Json* const codes, fields.Array("codes"));
  if (!ReadCounts(*codes, &side->codes)) return fields.Bad("codes", "has not one count per code");
  return {};
}

}  // namespace

Json ToJson(const AttentionResult& result) {
  Json layers = Json::array();
  for (const LayerAttention& layer : result.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"rows", layer.rows},
                      {"choosing", layer.choosing},
                      {"jaccard", layer.jaccard},
                      {"recall", layer.recall},
                      {"cosine", layer.cosine},
                      {"relative_l2", layer.relative_l2}});
  }
  Json sides = Json::array();
  for (const StoredSide& side : result.sides) {
    sides.push_back({{"layer", side.layer},
                     {"value", side.value},
                     {"values", side.values},
                     {"clipped", side.clipped},
                     {"codes", side.codes}});
  }
  return {{"tokens", result.tokens}, {"layers", std::move(layers)}, {"sides", std::move(sides)}};
}

Result<AttentionResult> AttentionFromJson(const Json& json, const std::string& where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where, ""));
  AttentionResult result;
  KV8_ASSIGN_OR_RETURN(result.tokens, fields.Count("tokens"));
  KV8_ASSIGN_OR_RETURN(result.layers, Objects<LayerAttention>(fields, "layers", ReadLayer));
  KV8_ASSIGN_OR_RETURN(result.sides, Objects<StoredSide>(fields, "sides", ReadSide));
  return result;
}

}  // namespace kv8
