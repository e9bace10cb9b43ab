#include "synth/dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "family/model_config.h"
#include "synth/bundled.h"

namespace kv8 {
namespace {

/// Each with the value of the released model where it differs from the bundled one.
constexpr std::string_view kReleased = R"({
  "hidden_size": 2560, "num_hidden_layers": 48, "num_attention_heads": 24, "head_dim": 256,
  "vocab_size": 248320, "max_position_embeddings": 262144,
  "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0,
                      "partial_rotary_factor": 0.25, "mrope_interleaved": true,
                      "mrope_section": [11, 11, 10]},
  "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128,
  "linear_value_head_dim": 128, "num_experts": 512, "num_experts_per_tok": 10,
  "moe_intermediate_size": 640, "shared_expert_intermediate_size": 640, "hc_lowrank": 320,
  "ple_layer_ids": [2], "ple_embed_dim": 2560, "heads_per_ngram": 8,
  "ngram_vocab_size_base": 20000000, "split_ngram_parts": 128, "indexer_head_dim": 128,
  "indexer_budget": 2048,
  "mtp": {"hybrid": true, "layer_types": ["full_attention"], "num_hidden_layers": 1,
          "rope_theta": 10000000.0, "mtp_use_hidden_state_from_layer": null}})";

/// Far above any config.json of the family.
constexpr std::uint64_t kMaxConfigBytes = 16'000'000;

Error BadFlag(const char* flag, std::string what, std::string remedy) {
  return Error{Code::kInvalidArgument, std::move(what), flag, std::move(remedy)};
}

/// The first `layers` of the pattern, which repeats where there are not as many.
void SetLayers(Json& text, int layers) {
  text["num_hidden_layers"] = layers;
  for (const char* key : {"layer_types", "layers_block_type"}) {
    if (!text.contains(key) || !text[key].is_array() || text[key].empty()) continue;
    const Json pattern = text[key];
    Json types = Json::array();
    for (int i = 0; i < layers; ++i)
      types.push_back(pattern[static_cast<std::size_t>(i) % pattern.size()]);
    text[key] = std::move(types);
  }
  if (!text.contains("ple_layer_ids")) return;
  Json ids = Json::array();
  for (const Json& id : text["ple_layer_ids"]) {
    if (id.get<std::int64_t>() <= layers) ids.push_back(id);
  }
  text["ple_layer_ids"] = std::move(ids);
}

Result<Json> ReadSource(const std::string& source) {
  if (source != "tiny" && source != "released") return ReadJsonFile(source, kMaxConfigBytes);
  Json config = Json::parse(BundledText(BundledFile::kConfig));
  if (source == "tiny") return config;
  Json& text = TextConfig(config);
  text.update(Json::parse(kReleased));
  SetLayers(text, text["num_hidden_layers"].get<int>());
  return config;
}

Result<void> SetTableRows(Json& text, std::int64_t rows, const ModelSpec& spec) {
  if (!spec.ple) {
    return BadFlag("--table-rows", "the model has no n-gram table", "leave the flag out");
  }
  const std::int64_t base = rows / spec.ple->heads();
  if (base < 2) {
    return BadFlag(
        "--table-rows",
        fmt::format("is {}; the {} heads of the table need two rows each", rows, spec.ple->heads()),
        "ask for more rows");
  }
  text["ngram_vocab_size_base"] = base;
  return {};
}

void DropDraft(Json& text) {
  text["mtp_num_hidden_layers"] = 0;
  text.erase("mtp");
}

/// What is said of weights and of vision, which this writes anew or not at all.
void DropForeign(Json& config) {
  for (Json* object : {&config, &TextConfig(config)}) {
    for (const char* key : {"quantization_config", "compression_config", "ple_embedding_dtype"}) {
      object->erase(key);
    }
  }
  config.erase("vision_config");
  config["language_model_only"] = true;
}

}  // namespace

Json& TextConfig(Json& config) {
  return config.contains("text_config") ? config["text_config"] : config;
}

Result<Json> MakeConfig(const Dimensions& dimensions) {
  KV8_ASSIGN_OR_RETURN(Json config, ReadSource(dimensions.source));
  if (config.is_object() && TextConfig(config).is_object()) DropForeign(config);
  KV8_ASSIGN_OR_RETURN(const ModelSpec spec, ReadModelSpec(config, dimensions.source));
  Json& text = TextConfig(config);
  if (dimensions.table_rows) {
    KV8_RETURN_IF_ERROR(SetTableRows(text, *dimensions.table_rows, spec));
  }
  if (dimensions.layers) SetLayers(text, *dimensions.layers);
  if (!dimensions.draft) DropDraft(text);
  KV8_RETURN_IF_ERROR(ReadModelSpec(config, dimensions.source));
  return config;
}

}  // namespace kv8
