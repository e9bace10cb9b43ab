#include <utility>

#include "proof/json_objects.h"
#include "proof/measurements.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kMost = INT64_MAX;

Result<std::vector<std::int64_t>> Counts(const JsonFields& fields, std::string_view key) {
  KV8_ASSIGN_OR_RETURN(const Json* const array, fields.Array(key));
  std::vector<std::int64_t> counts;
  for (const Json& value : *array) {
    const auto count = AsCount(value);
    if (!count || *count > kMost) return fields.Bad(key, "holds what is no count");
    counts.push_back(static_cast<std::int64_t>(*count));
  }
  return counts;
}

Result<std::vector<TokenId>> Ids(const JsonFields& fields, std::string_view key) {
  KV8_ASSIGN_OR_RETURN(const Json* const array, fields.Array(key));
  std::vector<TokenId> ids;
  for (const Json& value : *array) {
    const auto id = AsTokenId(value);
    if (!id) return fields.Bad(key, "holds what is no token id");
    ids.push_back(*id);
  }
  return ids;
}

Json LossesJson(const CacheLosses& losses) {
  Json layers = Json::array();
  for (const KvCacheInfo::Layer& layer : losses.layers) {
    layers.push_back({{"layer", layer.layer},
                      {"draft", layer.draft},
                      {"saturated_k", layer.saturated_k},
                      {"saturated_v", layer.saturated_v},
                      {"flushed_k", layer.flushed_k},
                      {"flushed_v", layer.flushed_v}});
  }
  return {{"layers", std::move(layers)}, {"tokens", losses.tokens}};
}

Result<void> ReadLayer(const JsonFields& fields, KvCacheInfo::Layer* layer) {
  KV8_ASSIGN_OR_RETURN(const std::uint64_t number, fields.Count("layer", 1'000'000));
  layer->layer = static_cast<int>(number);
  KV8_ASSIGN_OR_RETURN(layer->draft, fields.Bool("draft"));
  KV8_ASSIGN_OR_RETURN(layer->saturated_k, fields.Count("saturated_k"));
  KV8_ASSIGN_OR_RETURN(layer->saturated_v, fields.Count("saturated_v"));
  KV8_ASSIGN_OR_RETURN(layer->flushed_k, fields.Count("flushed_k"));
  KV8_ASSIGN_OR_RETURN(layer->flushed_v, fields.Count("flushed_v"));
  return {};
}

Result<CacheLosses> LossesFrom(const JsonFields& parent) {
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, parent.Object("losses"));
  CacheLosses losses;
  KV8_ASSIGN_OR_RETURN(losses.layers, Objects<KvCacheInfo::Layer>(fields, "layers", ReadLayer));
  KV8_ASSIGN_OR_RETURN(losses.tokens, fields.Count("tokens"));
  return losses;
}

/// Token ids and log-probabilities in turn: a third of the text that objects would take.
Json TopJson(const std::vector<std::vector<TokenLogprob>>& positions) {
  Json rows = Json::array();
  for (const auto& position : positions) {
    Json row = Json::array();
    for (const TokenLogprob& entry : position) {
      row.push_back(entry.token);
      row.push_back(entry.logprob);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::vector<std::vector<TokenLogprob>>> TopFrom(const JsonFields& fields) {
  KV8_ASSIGN_OR_RETURN(const Json* const rows, fields.Array("top"));
  std::vector<std::vector<TokenLogprob>> positions;
  for (const Json& row : *rows) {
    if (!row.is_array() || row.size() % 2 != 0) return fields.Bad("top", "holds no pairs");
    auto& position = positions.emplace_back();
    for (std::size_t i = 0; i < row.size(); i += 2) {
      const auto id = AsTokenId(row[i]);
      if (!id || !row[i + 1].is_number()) return fields.Bad("top", "holds no log-probabilities");
      position.push_back({.token = *id, .logprob = row[i + 1].get<float>()});
    }
  }
  return positions;
}

Result<void> ReadText(const JsonFields& fields, TextScore* text) {
  KV8_ASSIGN_OR_RETURN(text->nll, fields.Number("nll"));
  KV8_ASSIGN_OR_RETURN(text->nll_bits, fields.Sha256("nll_bits"));
  KV8_ASSIGN_OR_RETURN(text->argmax, Ids(fields, "argmax"));
  KV8_ASSIGN_OR_RETURN(text->top, TopFrom(fields));
  return {};
}

Result<void> ReadOutput(const JsonFields& fields, ItemOutput* output) {
  KV8_ASSIGN_OR_RETURN(output->ids, Ids(fields, "ids"));
  KV8_ASSIGN_OR_RETURN(output->right, fields.Bool("right"));
  KV8_ASSIGN_OR_RETURN(output->right_tool, fields.Bool("right_tool"));
  KV8_ASSIGN_OR_RETURN(const std::uint64_t steps, fields.Count("steps", kMost));
  output->steps = static_cast<std::int64_t>(steps);
  KV8_ASSIGN_OR_RETURN(output->drafted_at, Counts(fields, "drafted_at"));
  KV8_ASSIGN_OR_RETURN(output->accepted_at, Counts(fields, "accepted_at"));
  if (output->drafted_at.size() != output->accepted_at.size()) {
    return fields.Bad("accepted_at", "has not the length of \"drafted_at\"");
  }
  return {};
}

}  // namespace

Json ToJson(const ArmScores& scores) {
  Json texts = Json::array();
  for (const TextScore& text : scores.texts) {
    texts.push_back({{"nll", text.nll},
                     {"nll_bits", text.nll_bits},
                     {"argmax", text.argmax},
                     {"top", TopJson(text.top)}});
  }
  return {{"texts", std::move(texts)}, {"losses", LossesJson(scores.losses)}};
}

Json ToJson(const ArmOutputs& outputs) {
  Json items = Json::array();
  for (const ItemOutput& item : outputs.items) {
    items.push_back({{"ids", item.ids},
                     {"right", item.right},
                     {"right_tool", item.right_tool},
                     {"steps", item.steps},
                     {"drafted_at", item.drafted_at},
                     {"accepted_at", item.accepted_at}});
  }
  return {{"items", std::move(items)},
          {"losses", LossesJson(outputs.losses)},
          {"from_text", outputs.from_text}};
}

Json ToJson(const ScheduleResult& result) {
  return {{"prompts", result.prompts},
          {"batched", result.batched},
          {"hit", result.hit},
          {"hits", result.hits}};
}

Result<ArmScores> ScoresFromJson(const Json& json, const std::string& where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where, ""));
  ArmScores scores;
  KV8_ASSIGN_OR_RETURN(scores.texts, Objects<TextScore>(fields, "texts", ReadText));
  KV8_ASSIGN_OR_RETURN(scores.losses, LossesFrom(fields));
  return scores;
}

Result<ArmOutputs> OutputsFromJson(const Json& json, const std::string& where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where, ""));
  ArmOutputs outputs;
  KV8_ASSIGN_OR_RETURN(outputs.items, Objects<ItemOutput>(fields, "items", ReadOutput));
  KV8_ASSIGN_OR_RETURN(outputs.losses, LossesFrom(fields));
  KV8_ASSIGN_OR_RETURN(outputs.from_text, fields.Bool("from_text"));
  return outputs;
}

Result<ScheduleResult> ScheduleFromJson(const Json& json, const std::string& where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where, ""));
  ScheduleResult result;
  for (const auto& [key, value] : {std::pair{"prompts", &result.prompts},
                                   {"batched", &result.batched},
                                   {"hit", &result.hit},
                                   {"hits", &result.hits}}) {
    KV8_ASSIGN_OR_RETURN(const std::uint64_t count, fields.Count(key, kMost));
    *value = static_cast<std::int64_t>(count);
  }
  return result;
}

}  // namespace kv8
