#include "checkpoint/quantization_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kv8 {
namespace {

constexpr std::int64_t kMaxGroup = 1 << 20;

/// The value of a key that is there and not null.
const Json* Find(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string TextOf(const Json& object, std::string_view key) {
  const Json* const value = Find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

/// -1, which some tools write for one group per row, counts as not said.
int GroupOf(const Json& object) {
  const Json* const value = Find(object, "group_size");
  const auto group = value == nullptr ? std::nullopt : IntegerOf(*value);
  return group && *group > 0 && *group <= kMaxGroup ? static_cast<int>(*group) : 0;
}

std::optional<bool> BoolOf(const Json& object, std::string_view key) {
  const Json* const value = Find(object, key);
  if (value == nullptr || !value->is_boolean()) return std::nullopt;
  return value->get<bool>();
}

struct Algorithm {
  std::string_view name;
  WeightFormat format;
};

constexpr std::array kAlgorithms = {
    Algorithm{"NVFP4", WeightFormat::kNvfp4},
    Algorithm{"NVFP4_AWQ", WeightFormat::kNvfp4},
    Algorithm{"W4A16_NVFP4", WeightFormat::kNvfp4},
    Algorithm{"FP8", WeightFormat::kFp8},
    Algorithm{"FP8_PB_WO", WeightFormat::kFp8},
    Algorithm{"FP8_BLOCK_SCALES", WeightFormat::kFp8},
};

constexpr std::array<std::string_view, 5> kIgnoreKeys = {
    "ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "modules_to_skip"};

}  // namespace

void QuantizationReader::Refuse(std::string_view key, const Json& value, std::string_view what) {
  fields_.Fail(Code::kUnsupported, key, fmt::format("is {}; {}", JsonText(value), what),
               "use a checkpoint in a layout that kv8 reads (docs/guide/checkpoints.md)");
}

QuantizationScheme QuantizationReader::SchemeOfAlgorithm(const Json& value, std::string key) {
  const auto* const found = std::ranges::find_if(
      kAlgorithms, [&](const Algorithm& algorithm) { return value == algorithm.name; });
  if (found == kAlgorithms.end()) {
    Refuse(key, value, "kv8 reads NVFP4, FP8, FP8_PB_WO and FP8_BLOCK_SCALES");
    return {};
  }
  return {.key = std::move(key),
          .text = JsonText(value),
          .format = found->format,
          .group = found->format == WeightFormat::kNvfp4 ? kNvfp4Group : 0};
}

QuantizationScheme QuantizationReader::SchemeOfWeights(const Json& weights, std::string key) {
  const Json* const bits = Find(weights, "num_bits");
  const std::string type = TextOf(weights, "type");
  QuantizationScheme scheme{.key = std::move(key),
                            .text = fmt::format("{} of {} bits", type.empty() ? "a type" : type,
                                                bits == nullptr ? "?" : JsonText(*bits)),
                            .group = GroupOf(weights),
                            .symmetric = BoolOf(weights, "symmetric")};
  if (bits != nullptr && *bits == 4 && type == "int") scheme.format = WeightFormat::kInt4;
  if (bits != nullptr && *bits == 4 && type == "float") scheme.format = WeightFormat::kNvfp4;
  if (bits != nullptr && *bits == 8 && type == "float") scheme.format = WeightFormat::kFp8;
  if (scheme.format != WeightFormat::kInt4) scheme.symmetric.reset();
  return scheme;
}

void QuantizationReader::ReadGroup(const std::string& name, const Json& group) {
  const std::string key = fmt::format("config_groups: {}", name);
  const Json* const weights = group.is_object() ? Find(group, "weights") : nullptr;
  if (group.is_object() && weights == nullptr) return;  // activations alone
  if (weights == nullptr || !weights->is_object()) {
    Refuse(key, group, "must be an object with weights");
    return;
  }
  QuantizationConfig::Target target;
  target.scheme = SchemeOfWeights(*weights, key + ": weights");
  const Json* const targets = Find(group, "targets");
  bool all = targets == nullptr || !targets->is_array();
  for (const Json& entry : all ? Json::array() : *targets) {
    if (!entry.is_string()) continue;
    const auto& text = entry.get_ref<const std::string&>();
    // A class, such as Linear, rather than a module's name.
    const bool is_class = !text.starts_with("re:") && text.find_first_of(".*") == text.npos;
    all = all || is_class;
    target.modules.Add(text);
  }
  if (all) target.modules = {};
  into_.targeted_.push_back(std::move(target));
}

void QuantizationReader::ReadCompressed() {
  for (const char* key : {"sparsity_config", "transform_config"}) {
    const Json* const value = Find(json_, key);
    if (value == nullptr || (value->is_object() && value->empty())) continue;
    Refuse(key, *value, "kv8 reads weights that are neither sparse nor transformed");
  }
  if (const std::string format = TextOf(json_, "format"); format.find("mxfp") != format.npos) {
    Refuse("format", format, "kv8 does not read MXFP4");
  }
  const Json* const groups = Find(json_, "config_groups");
  if (groups == nullptr) return;
  if (!groups->is_object()) {
    Refuse("config_groups", *groups, "must be an object");
    return;
  }
  for (const auto& [name, group] : groups->items()) ReadGroup(name, group);
}

void QuantizationReader::ReadModelOptLayers(const Json& layers) {
  for (const auto& [module, layer] : layers.items()) {
    const std::string key = fmt::format("quantized_layers: {}", module);
    const Json* const algorithm = layer.is_object() ? Find(layer, "quant_algo") : nullptr;
    if (algorithm == nullptr) {
      Refuse(key, layer, "must be an object with quant_algo");
      return;
    }
    QuantizationConfig::Target target;
    target.scheme = SchemeOfAlgorithm(*algorithm, key + ": quant_algo");
    if (const int group = GroupOf(layer); group > 0) target.scheme.group = group;
    target.modules.Add(module);
    into_.named_.push_back(std::move(target));
  }
}

void QuantizationReader::ReadModelOpt() {
  const Json* const algorithm = Find(json_, "quant_algo");
  const Json* const layers = Find(json_, "quantized_layers");
  if (layers != nullptr && !layers->is_object()) {
    Refuse("quantized_layers", *layers, "must be an object");
  } else if (layers != nullptr) {
    ReadModelOptLayers(*layers);
  }
  if (algorithm == nullptr) {
    ReadCompressed();
  } else if (*algorithm != "MIXED_PRECISION") {
    QuantizationConfig::Target target;
    target.scheme = SchemeOfAlgorithm(*algorithm, "quant_algo");
    if (const int group = GroupOf(json_); group > 0) target.scheme.group = group;
    into_.targeted_.push_back(std::move(target));
  }
}

void QuantizationReader::ReadFp8() {
  fields_.RequireOneOf("fmt", {"e4m3", "float8_e4m3fn"}, /*absent_ok=*/true);
  const Json* const block = Find(json_, "weight_block_size");
  if (block != nullptr && *block != Json::array({kFp8BlockSide, kFp8BlockSide})) {
    fields_.Fail(Code::kUnsupported, "weight_block_size",
                 fmt::format("is {}; kv8 reads blocks of 128 x 128", block->dump().substr(0, 60)));
  }
  QuantizationConfig::Target target;
  target.scheme = {.key = "quant_method",
                   .text = "fp8",
                   .format = WeightFormat::kFp8,
                   .group = block != nullptr ? kFp8BlockSide : 0};
  into_.targeted_.push_back(std::move(target));
}

void QuantizationReader::ReadInt4() {
  const std::string method = TextOf(json_, "quant_method");
  for (const char* key : {"bits", "w_bit"}) {
    const Json* const bits = Find(json_, key);
    if (bits != nullptr && *bits != 4) Refuse(key, *bits, "kv8 reads 4");
  }
  if (BoolOf(json_, "desc_act").value_or(false)) {
    Refuse("desc_act", true, "act-order GPTQ is not read");
  }
  fields_.RequireOneOf("version", {"gemm", "GEMM"}, /*absent_ok=*/true);
  QuantizationConfig::Target target;
  target.scheme = {.key = "quant_method",
                   .text = method,
                   .format = WeightFormat::kInt4,
                   .group = GroupOf(json_)};
  into_.targeted_.push_back(std::move(target));
  ReadGptqZeros(method);
  ReadAutoRoundLayers();
}

void QuantizationReader::ReadGptqZeros(std::string_view method) {
  if (method == "awq") return;
  const char* const key = method == "gptq" ? "checkpoint_format" : "packing_format";
  const std::string format = TextOf(json_, key);
  // AutoGPTQ, which had no such key, stored the zero point less one.
  const bool old = format == "gptq" || format == "auto_round:auto_gptq" ||
                   format == "auto_round:gptq" || (method == "gptq" && format.empty());
  if (old) into_.gptq_zeros_ = GptqZeros::kLessOne;
  if (format == "gptq_v2" || format == "auto_round:gptq_v2") {
    into_.gptq_zeros_ = GptqZeros::kPlain;
  }
  const bool awq = format.find("awq") != format.npos;
  if (into_.gptq_zeros_ || awq) return;
  Refuse(key, format, "kv8 reads gptq, gptq_v2, auto_round:auto_gptq and auto_round:auto_awq");
}

/// Modules that AutoRound stores otherwise than the rest: wider ones are left as they are.
void QuantizationReader::ReadAutoRoundLayers() {
  const Json* const layers = Find(json_, "extra_config");
  if (layers == nullptr || !layers->is_object()) return;
  for (const auto& [module, layer] : layers->items()) {
    const Json* const bits = layer.is_object() ? Find(layer, "bits") : nullptr;
    if (bits == nullptr) continue;
    if (*bits == 16 || *bits == 32) {
      into_.ignore_key_ = "extra_config";
      into_.ignore_.Add(module);
    } else if (*bits != 4) {
      Refuse(fmt::format("extra_config: {}: bits", module), *bits, "kv8 reads 4 and 16");
    }
  }
}

void QuantizationReader::ReadCache() {
  for (const char* key : {"kv_cache_scheme", "kv_cache_quant_algo"}) {
    const Json* const value = Find(json_, key);
    if (value == nullptr) continue;
    into_.notes_.push_back(fmt::format(
        "{}: {} is {}: the K/V type is that of --kv-cache-dtype all the same", into_.where_, key,
        value->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80)));
  }
}

void QuantizationReader::ReadIgnored() {
  for (const std::string_view key : kIgnoreKeys) {
    const Json* const list = Find(json_, key);
    if (list == nullptr) continue;
    if (!list->is_array()) {
      Refuse(key, *list, "must be an array of names");
      return;
    }
    if (!list->empty()) into_.ignore_key_ = key;
    for (const Json& entry : *list) {
      if (entry.is_string()) into_.ignore_.Add(entry.get_ref<const std::string&>());
    }
  }
  for (const std::string& entry : into_.ignore_.unread()) {
    into_.notes_.push_back(fmt::format("{}: {} holds {}, which kv8 cannot evaluate", into_.where_,
                                       into_.ignore_key_, JsonText(entry)));
  }
}

Result<void> QuantizationReader::Read() {
  ReadCache();
  ReadIgnored();
  const std::string method = TextOf(json_, "quant_method");
  if (method.starts_with("modelopt") || (method.empty() && json_.contains("quant_algo"))) {
    ReadModelOpt();
  } else if (method == "compressed-tensors" || method.empty()) {
    ReadCompressed();
  } else if (method == "fp8") {
    ReadFp8();
  } else if (method == "gptq" || method == "awq" || method == "auto-round" ||
             method == "intel/auto-round") {
    ReadInt4();
  } else {
    Refuse("quant_method", method,
           "kv8 reads modelopt, fp8, compressed-tensors, gptq, auto-round and awq");
  }
  return fields_.status();
}

}  // namespace kv8
