#include "synth/quantization_config.h"

#include <string>
#include <string_view>

#include "family/tensor_names.h"
#include "synth/dimensions.h"
#include "synth/quantise.h"

namespace kv8 {
namespace {

/// The module that a weight belongs to, by its released name.
std::string ModuleOf(const ModelTensor& tensor) {
  constexpr std::string_view kLeaf = ".weight";
  const std::string name = ReleasedName(tensor.name);
  return name.ends_with(kLeaf) ? name.substr(0, name.size() - kLeaf.size()) : name;
}

/// "model.language_model.layers.3.mlp.experts"
std::string ExpertsModuleOf(const ModelTensor& stack) {
  const std::string name = ReleasedName(stack.name);
  return name.substr(0, name.rfind('.'));
}

/// Every module that stays plain, in the model's order.
Json PlainModules(const SynthFormats& formats, const ModelTensors& tensors) {
  Json modules = Json::array();
  for (const ModelTensor& tensor : tensors.floats) {
    if (tensor.role == TensorRole::kVector) continue;
    const WeightFormat format = tensor.role == TensorRole::kTable ? formats.table
                                : tensor.role == TensorRole::kExperts
                                    ? formats.ExpertsOf(tensor).format
                                    : formats.plain();
    if (!IsPlain(format)) continue;
    const bool stack = tensor.role == TensorRole::kExperts;
    std::string module = stack ? ExpertsModuleOf(tensor) : ModuleOf(tensor);
    if (modules.empty() || modules.back() != module) modules.push_back(std::move(module));
  }
  return modules;
}

Json Fp8Config(const SynthFormats& formats, const ModelTensors& tensors) {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {kFp8BlockSide, kFp8BlockSide}},
          {"modules_to_not_convert", PlainModules(formats, tensors)}};
}

Json Nvfp4Scheme() {
  return {{"num_bits", 4}, {"type", "float"}, {"group_size", kNvfp4Group}, {"dynamic", false}};
}

/// By module, what a mixed file holds.
Json QuantisedLayers(const SynthFormats& formats, const ModelTensors& tensors) {
  Json layers = Json::object();
  for (const ModelTensor& tensor : tensors.floats) {
    if (tensor.role == TensorRole::kExperts) {
      layers[ExpertsModuleOf(tensor)] =
          tensor.is_draft() ? Json{{"quant_algo", "FP8_PB_WO"}, {"group_size", kFp8BlockSide}}
                            : Json{{"quant_algo", "NVFP4"}, {"group_size", kNvfp4Group}};
    }
    if (tensor.role != TensorRole::kTable || IsPlain(formats.table)) continue;
    const std::string part = ReleasedName(tensor.name);
    layers[part.substr(0, part.rfind(".shard_"))] =
        formats.table == WeightFormat::kFp8
            ? Json{{"quant_algo", "FP8"}}
            : Json{{"quant_algo", "NVFP4"}, {"group_size", kNvfp4Group}};
  }
  return layers;
}

Json ModelOptConfig(const SynthFormats& formats, const ModelTensors& tensors) {
  const bool mixed = formats.draft_experts.format == WeightFormat::kFp8;
  Json config = {{"quant_method", "modelopt"},
                 {"quant_algo", mixed ? "MIXED_PRECISION" : "NVFP4"},
                 {"producer", {{"name", "modelopt"}}},
                 {"config_groups",
                  {{"group_0",
                    {{"weights", Nvfp4Scheme()},
                     {"input_activations", Nvfp4Scheme()},
                     {"targets", {"Linear"}}}}}}};
  if (mixed) {
    config["quantized_layers"] = QuantisedLayers(formats, tensors);
    config["ignore"] = PlainModules(formats, tensors);
    return config;
  }
  // As published: the table is ignored, and FP8 all the same.
  config["ignore"] = {"model.embed_tokens",
                      "mtp.*",
                      "model.mtp.*",
                      "*.self_attn.*",
                      "*.linear_attn.*",
                      "*.mlp.gate*",
                      "*.mlp.shared_expert.*",
                      "*hyper_connection*",
                      "*.ple.*",
                      "lm_head"};
  return config;
}

Json CompressedTensorsConfig(const SynthFormats& formats, const ModelTensors& tensors) {
  const StoredFormat& stored = formats.experts;
  const Json weights = {{"num_bits", 4},
                        {"type", "int"},
                        {"symmetric", stored.symmetric},
                        {"strategy", "group"},
                        {"group_size", stored.group},
                        {"dynamic", false},
                        {"observer", "minmax"}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"quantization_status", "compressed"},
          {"kv_cache_scheme", nullptr},
          {"ignore", PlainModules(formats, tensors)},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", weights},
              {"input_activations", nullptr},
              {"output_activations", nullptr}}}}}};
}

/// Whether a table in FP8 goes without saying: that of the FP8 and NVFP4 publications does.
bool TableIsUnderstood(const SynthFormats& formats) {
  if (formats.table != WeightFormat::kFp8) return IsPlain(formats.table);
  return formats.experts.format == WeightFormat::kFp8 ||
         formats.experts.format == WeightFormat::kNvfp4;
}

}  // namespace

void DescribeFormats(const SynthFormats& formats, const ModelTensors& tensors, Json& config) {
  Json& text = TextConfig(config);
  text["dtype"] = formats.plain() == WeightFormat::kFp16 ? "float16" : "bfloat16";
  text.erase("torch_dtype");
  if (!TableIsUnderstood(formats)) {
    text["ple_embedding_dtype"] = formats.table == WeightFormat::kFp8 ? "float8_e4m3fn" : "nvfp4";
  }
  const WeightFormat experts = formats.experts.format;
  if (experts == WeightFormat::kFp8) {
    config["quantization_config"] = Fp8Config(formats, tensors);
  } else if (experts == WeightFormat::kNvfp4) {
    config["quantization_config"] = ModelOptConfig(formats, tensors);
  } else if (experts == WeightFormat::kInt4) {
    config["quantization_config"] = CompressedTensorsConfig(formats, tensors);
  }
}

}  // namespace kv8
