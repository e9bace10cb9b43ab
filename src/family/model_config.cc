#include "family/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/model_directory.h"
#include "family/ple_config.h"

namespace kv8 {
namespace {

// Caps: far above any model of the family, low enough that products of a few dimensions stay in
// int and those of a whole tensor in int64.
constexpr int kMaxWidth = 1 << 16;
constexpr int kMaxHeads = 1 << 10;
constexpr int kMaxHeadDim = 1 << 10;
constexpr int kMaxLayers = 1 << 10;
constexpr int kMaxVocab = 1 << 24;
constexpr int kMaxPositions = 1 << 26;
constexpr int kMaxStreams = 16;
constexpr int kMaxConvKernel = 64;
constexpr double kMaxRopeTheta = 1e12;
constexpr std::uint64_t kMaxConfigBytes = 16'000'000;

struct LayerSpelling {
  std::string_view text;
  LayerKind kind;
};

/// The released spelling first; the others are those of other engines' saved configurations.
constexpr std::array kLayerSpellings = {
    LayerSpelling{"linear_attention", LayerKind::kGdn},
    LayerSpelling{"full_attention", LayerKind::kQsa},
    LayerSpelling{"deepseek_sparse_attention", LayerKind::kQsa},
    LayerSpelling{"hybrid_indexed", LayerKind::kQsa},
    LayerSpelling{"qwen_sparse_attention", LayerKind::kQsa},
    LayerSpelling{"attention", LayerKind::kQsa},
};

std::optional<LayerKind> LayerKindOf(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  for (const LayerSpelling& spelling : kLayerSpellings) {
    if (value.get_ref<const std::string&>() == spelling.text) return spelling.kind;
  }
  return std::nullopt;
}

std::vector<LayerKind> KindsFromInterval(ConfigReader& reader, int layers) {
  const auto interval = reader.Int("full_attention_interval", 1, kMaxLayers);
  std::vector<LayerKind> kinds;
  for (int i = 0; i < layers; ++i) {
    kinds.push_back((i + 1) % interval == 0 ? LayerKind::kQsa : LayerKind::kGdn);
  }
  return kinds;
}

std::vector<LayerKind> ReadLayerKinds(ConfigReader& reader, int layers) {
  std::string_view key = "layer_types";
  if (!reader.Has(key) && reader.Has("layers_block_type")) key = "layers_block_type";
  const Json* types = reader.Find(key);
  if (types == nullptr) return KindsFromInterval(reader, layers);
  if (!types->is_array()) {
    reader.Fail(Code::kCorrupt, key, fmt::format("is {}; must be an array", JsonText(*types)));
    return {};
  }
  if (types->size() != static_cast<std::size_t>(layers)) {
    reader.Fail(Code::kMismatch, key,
                fmt::format("has {} entries, num_hidden_layers is {}", types->size(), layers));
    return {};
  }
  std::vector<LayerKind> kinds;
  for (const Json& type : *types) {
    const auto kind = LayerKindOf(type);
    if (!kind) {
      reader.Fail(Code::kUnsupported, key,
                  fmt::format("holds {} for layer {}; kv8 implements linear_attention and "
                              "full_attention",
                              JsonText(type), kinds.size()));
      return {};
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

/// A number that may stand in rope_parameters, beside it, or in both places if they agree.
double ReadRopeNumber(ConfigReader& text, ConfigReader* rope, std::string_view key, double min,
                      double max) {
  if (rope == nullptr || !rope->Has(key)) return text.Number(key, min, max);
  const double value = rope->Number(key, min, max);
  if (text.Has(key) && text.Number(key, min, max) != value) {
    text.Fail(Code::kMismatch, key,
              fmt::format("is {}, but rope_parameters.{} is {}", JsonText(*text.Find(key)), key,
                          JsonText(*rope->Find(key))));
  }
  return value;
}

/// rope_theta and rotary_dim; refuses every rescaling of positions.
Result<void> ReadRope(ConfigReader& text, QsaConfig& qsa, Json* fields) {
  text.RequireAbsent("rope_scaling", "kv8 implements rope_type \"default\" without scaling");
  const Json* object = text.Find("rope_parameters");
  if (object != nullptr && !object->is_object()) {
    text.Fail(Code::kCorrupt, "rope_parameters", "must be an object");
  }
  KV8_RETURN_IF_ERROR(text.status());
  std::optional<ConfigReader> rope;
  if (object != nullptr) {
    rope.emplace(*object, text.WhereOf("rope_parameters"), fields, "rope_parameters.");
    rope->RequireOneOf("rope_type", {"default"}, true);
    rope->RequireOneOf("type", {"default"}, true);
  }
  ConfigReader* nested = rope ? &*rope : nullptr;
  qsa.rope_theta = ReadRopeNumber(text, nested, "rope_theta", 1, kMaxRopeTheta);
  const double factor = ReadRopeNumber(text, nested, "partial_rotary_factor", 0, 1);
  if (rope) KV8_RETURN_IF_ERROR(rope->status());
  KV8_RETURN_IF_ERROR(text.status());
  const double rotary = factor * qsa.head_dim;
  qsa.rotary_dim = static_cast<int>(std::lround(rotary));
  if (std::abs(rotary - qsa.rotary_dim) > 1e-6 || qsa.rotary_dim % 2 != 0 || qsa.rotary_dim < 2) {
    text.Fail(Code::kMismatch, "partial_rotary_factor",
              fmt::format("{} of head_dim {} is {} dimensions; must be a positive even number",
                          factor, qsa.head_dim, rotary));
  }
  return text.status();
}

Result<void> ReadQsa(ConfigReader& text, QsaConfig& qsa, Json* fields) {
  text.RequireBool("attention_bias", false);
  qsa.query_heads = text.Extent("num_attention_heads", kMaxHeads);
  qsa.kv_heads = text.Extent("num_key_value_heads", kMaxHeads);
  qsa.head_dim = text.Extent("head_dim", kMaxHeadDim);
  qsa.index_heads = text.Extent("indexer_n_heads", kMaxHeads);
  qsa.index_dim = text.Extent("indexer_head_dim", kMaxHeadDim);
  const auto index_kv_heads = text.Int("indexer_kv_heads", 1, kMaxHeads);
  const int budget = text.Extent("indexer_budget", kMaxPositions);
  qsa.selection_block_tokens = text.Extent("indexer_compress_ratio", kMaxPositions);
  KV8_RETURN_IF_ERROR(text.status());
  KV8_RETURN_IF_ERROR(ReadRope(text, qsa, fields));
  if (qsa.query_heads % qsa.kv_heads != 0) {
    text.Fail(Code::kMismatch, "num_attention_heads",
              fmt::format("is {}, not a multiple of num_key_value_heads {}", qsa.query_heads,
                          qsa.kv_heads));
  }
  if (index_kv_heads != 1) {
    text.Fail(Code::kUnsupported, "indexer_kv_heads",
              fmt::format("is {}; kv8 implements 1", index_kv_heads));
  }
  if (kPageTokens % qsa.selection_block_tokens != 0) {
    text.Fail(Code::kUnsupported, "indexer_compress_ratio",
              fmt::format("is {}; kv8 implements the divisors of {}", qsa.selection_block_tokens,
                          kPageTokens));
  }
  if (budget % qsa.selection_block_tokens != 0) {
    text.Fail(Code::kMismatch, "indexer_budget",
              fmt::format("is {}, not a multiple of indexer_compress_ratio {}", budget,
                          qsa.selection_block_tokens));
  }
  if (qsa.rotary_dim > qsa.index_dim) {
    text.Fail(Code::kMismatch, "indexer_head_dim",
              fmt::format("is {}, less than the {} rotary dimensions (head_dim * "
                          "partial_rotary_factor)",
                          qsa.index_dim, qsa.rotary_dim));
  }
  qsa.budget_selection_blocks = budget / qsa.selection_block_tokens;
  return text.status();
}

Result<void> ReadGdn(ConfigReader& text, GdnConfig& gdn) {
  text.RequireOneOf("output_gate_type", {"sigmoid"}, /*absent_ok=*/false);
  text.RequireOneOf("mamba_ssm_dtype", {"float32"}, true);
  gdn.key_heads = text.Extent("linear_num_key_heads", kMaxHeads);
  gdn.value_heads = text.Extent("linear_num_value_heads", kMaxHeads);
  gdn.key_dim = text.Extent("linear_key_head_dim", kMaxHeadDim);
  gdn.value_dim = text.Extent("linear_value_head_dim", kMaxHeadDim);
  gdn.conv_kernel = text.Extent("linear_conv_kernel_dim", kMaxConvKernel);
  if (gdn.value_heads % gdn.key_heads != 0) {
    text.Fail(Code::kMismatch, "linear_num_value_heads",
              fmt::format("is {}, not a multiple of linear_num_key_heads {}", gdn.value_heads,
                          gdn.key_heads));
  }
  return text.status();
}

Result<void> ReadMoe(ConfigReader& text, MoeConfig& moe) {
  text.RequireBool("norm_topk_prob", true);
  moe.experts = text.Extent("num_experts", kMaxWidth);
  moe.experts_per_token = text.Extent("num_experts_per_tok", kMaxWidth);
  moe.expert_dim = text.Extent("moe_intermediate_size", kMaxWidth);
  moe.shared_expert_dim = text.Extent("shared_expert_intermediate_size", kMaxWidth);
  if (moe.experts_per_token > moe.experts) {
    text.Fail(Code::kMismatch, "num_experts_per_tok",
              fmt::format("is {}, more than num_experts {}", moe.experts_per_token, moe.experts));
  }
  return text.status();
}

/// The `mtp` object, which repeats and refines the flat keys.
Result<void> ReadMtpObject(const Json& object, std::string where, std::int64_t layers,
                           double& rope_theta, Json* fields) {
  if (!object.is_object()) {
    return Error{Code::kCorrupt, fmt::format("mtp is {}; must be an object", JsonText(object)),
                 std::move(where), "restore the file from the checkpoint's source"};
  }
  ConfigReader reader(object, std::move(where), fields, "mtp.");
  const auto count = reader.Int("num_hidden_layers", 0, kMaxLayers, layers);
  if (count != layers) {
    reader.Fail(Code::kMismatch, "num_hidden_layers",
                fmt::format("is {}, but mtp_num_hidden_layers is {}", count, layers));
  }
  reader.RequireAbsent("mtp_use_hidden_state_from_layer",
                       "kv8 feeds the draft head from the last layer");
  if (reader.Has("layer_types")) {
    for (const LayerKind kind : ReadLayerKinds(reader, static_cast<int>(layers))) {
      if (kind != LayerKind::kQsa) {
        reader.Fail(Code::kUnsupported, "layer_types",
                    "names a linear layer; kv8 implements full_attention in the draft head");
      }
    }
  }
  if (reader.Has("rope_theta")) rope_theta = reader.Number("rope_theta", 1, kMaxRopeTheta);
  return reader.status();
}

/// The draft head's rope_theta, if there is a draft head.
Result<std::optional<double>> ReadMtp(ConfigReader& text, double rope_theta, Json* fields) {
  text.RequireBool("mtp_use_dedicated_embeddings", false);
  const Json* object = text.Find("mtp");
  std::int64_t layers = 0;
  if (!text.Has("mtp_num_hidden_layers") && object != nullptr && object->is_object()) {
    ConfigReader reader(*object, text.WhereOf("mtp"), fields, "mtp.");
    layers = reader.Int("num_hidden_layers", 0, kMaxLayers, 0);
    KV8_RETURN_IF_ERROR(reader.status());
  } else {
    layers = text.Int("mtp_num_hidden_layers", 0, kMaxLayers, 0);
  }
  if (layers > 1) {
    text.Fail(Code::kUnsupported, "mtp_num_hidden_layers",
              fmt::format("is {}; kv8 implements 0 and 1", layers));
  }
  KV8_RETURN_IF_ERROR(text.status());
  if (object != nullptr) {
    KV8_RETURN_IF_ERROR(ReadMtpObject(*object, text.WhereOf("mtp"), layers, rope_theta, fields));
  }
  if (layers == 0) return std::optional<double>();
  return std::optional(rope_theta);
}

/// Dimensions of the trunk, and the kind of each layer; the other sections need its vocabulary.
Result<std::vector<LayerKind>> ReadTrunk(ConfigReader& text, ModelSpec& config) {
  text.RequireOneOf("model_type", {"qwen4_exp", "qwen4_exp_text"}, true);
  text.RequireOneOf("hidden_act", {"silu"}, true);
  config.hidden = text.Extent("hidden_size", kMaxWidth);
  const int layers = text.Extent("num_hidden_layers", kMaxLayers);
  config.vocab = text.Extent("vocab_size", kMaxVocab);
  config.max_positions = text.Int("max_position_embeddings", 1, kMaxPositions);
  config.rms_eps = static_cast<float>(text.Number("rms_norm_eps", 1e-12, 1));
  config.streams = static_cast<int>(text.Int("hc_count", 2, kMaxStreams));
  config.lowrank = text.Extent("hc_lowrank", kMaxWidth);
  KV8_RETURN_IF_ERROR(text.status());
  std::vector<LayerKind> kinds = ReadLayerKinds(text, layers);
  if (text.Has("eos_token_id")) {
    config.eos = static_cast<TokenId>(text.Int("eos_token_id", 0, config.vocab - 1));
  }
  KV8_RETURN_IF_ERROR(text.status());
  return kinds;
}

/// Numbers the layers, each among its like.
std::vector<LayerSpec> NumberLayers(const std::vector<LayerKind>& kinds, const ModelSpec& spec) {
  std::vector<LayerSpec> layers;
  int gdn_layers = 0, kv_layers = 0, ple_layers = 0;
  for (const LayerKind kind : kinds) {
    LayerSpec layer{.number = static_cast<int>(layers.size()), .kind = kind};
    if (kind == LayerKind::kGdn) {
      layer.gdn_layer = gdn_layers++;
    } else {
      layer.kv_layer = kv_layers++;
      layer.rope_theta = spec.qsa.rope_theta;
    }
    if (spec.ple && std::ranges::count(spec.ple->layers, layer.number) > 0) {
      layer.ple_layer = ple_layers++;
    }
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace

Result<ModelSpec> ReadModelSpec(const Json& config, std::string_view where, Json* fields) {
  const auto not_object = [where](std::string_view what) {
    return Error{Code::kCorrupt, fmt::format("{} is not a JSON object", what), std::string(where),
                 "restore the file from the checkpoint's source"};
  };
  if (!config.is_object()) return not_object("the configuration");
  ModelSpec out;
  ConfigReader root(config, std::string(where), fields);
  root.RequireOneOf("model_type", {"qwen4_exp", "qwen4_exp_text"}, true);
  root.RequireBool("tie_word_embeddings", false);
  KV8_RETURN_IF_ERROR(root.status());

  const Json* nested = root.Find("text_config");
  if (nested != nullptr && !nested->is_object()) return not_object("text_config");
  ConfigReader text =
      nested == nullptr ? root : ConfigReader(*nested, root.WhereOf("text_config"), fields);
  text.RequireBool("tie_word_embeddings", false);
  KV8_RETURN_IF_ERROR(text.status());

  KV8_ASSIGN_OR_RETURN(const std::vector<LayerKind> kinds, ReadTrunk(text, out));
  KV8_RETURN_IF_ERROR(ReadQsa(text, out.qsa, fields));
  KV8_RETURN_IF_ERROR(ReadGdn(text, out.gdn));
  KV8_RETURN_IF_ERROR(ReadMoe(text, out.moe));
  out.ple = ReadPleConfig(text, static_cast<int>(kinds.size()));
  KV8_RETURN_IF_ERROR(text.status());
  out.layers = NumberLayers(kinds, out);
  KV8_ASSIGN_OR_RETURN(const auto draft_theta, ReadMtp(text, out.qsa.rope_theta, fields));
  if (draft_theta) {
    out.draft = LayerSpec{.number = out.layer_count(),
                          .kind = LayerKind::kQsa,
                          .kv_layer = out.KvLayers(false),
                          .rope_theta = *draft_theta};
  }
  return out;
}

Result<ModelSpec> LoadModelSpecFile(const std::filesystem::path& path, Json* fields) {
  KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kMaxConfigBytes));
  return ReadModelSpec(json, path.string(), fields);
}

Result<ModelSpec> LoadModelSpec(const std::filesystem::path& dir, Json* fields) {
  KV8_RETURN_IF_ERROR(CheckModelDirectory(dir));
  return LoadModelSpecFile(dir / kConfigFile, fields);
}

}  // namespace kv8
