#include "support/quantised_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/file.h"
#include "checkpoint/index.h"
#include "checkpoint/read_floats.h"
#include "numeric/half.h"
#include "support/golden.h"
#include "support/or_throw.h"
#include "support/temp_dir.h"

namespace kv8::test {
namespace {

constexpr const char* kShard = "model-00002-of-00003.safetensors";  // others of the series: none

/// Names and values of the bundled model, as its files write them.
const std::map<std::string, TensorView>& Bundled() {
  static const std::vector<SafetensorsFile> files = [] {
    std::vector<SafetensorsFile> all;
    for (int i = 1; i <= 5; ++i) {
      all.push_back(OrThrow(SafetensorsFile::Open(
          BundledModel() / fmt::format("model-0000{}-of-00005.safetensors", i))));
    }
    return all;
  }();
  static const std::map<std::string, TensorView> tensors = [] {
    std::map<std::string, TensorView> all;
    for (const SafetensorsFile& file : files) {
      for (const auto& [name, view] : file.content().tensors) all.emplace(name, view);
    }
    return all;
  }();
  return tensors;
}

OwnedTensor Copy(const TensorView& view) {
  return {view.dtype, view.shape, {view.data, view.data + view.bytes()}};
}

OwnedTensor Plain(DType dtype, const std::vector<std::int64_t>& shape,
                  const std::vector<float>& values) {
  if (dtype == DType::kF32) return MakeTensor(dtype, shape, values);
  std::vector<std::uint16_t> rounded;
  for (const float value : values) rounded.push_back(EncodeBf16(value));
  return MakeTensor(dtype, shape, rounded);
}

/// Quantises rows of a stack of experts, one matrix per projection and expert.
class ExpertWriter {
 public:
  ExpertWriter(const LayoutOptions& options, std::optional<DType> dequantised, OwnedTensors& into)
      : options_(options), dequantised_(dequantised), into_(into) {}

  void Write(const std::string& name, const TensorView& stack) const {
    const bool fused = name.ends_with("gate_up_proj");
    const std::string prefix = name.substr(0, name.rfind('.') + 1);
    const std::int64_t cols = stack.shape[2], rows = stack.shape[1] / (fused ? 2 : 1);
    const std::vector<float> values = ReadFloats(stack);
    std::vector<float> whole;
    const std::array<std::string, 2> names = {fused ? "gate_proj" : "down_proj", "up_proj"};
    const auto size = static_cast<std::size_t>(rows * cols);
    for (std::size_t i = 0; i * size < values.size(); ++i) {
      const std::size_t expert = fused ? i / 2 : i;
      const auto matrix = Quantise(options_, std::span(values).subspan(i * size, size), rows, cols);
      whole.insert(whole.end(), matrix.values.begin(), matrix.values.end());
      if (dequantised_) continue;
      for (const auto& [leaf, tensor] : matrix.tensors) {
        into_[fmt::format("{}{}.{}.{}", prefix, expert, names[fused ? i % 2 : 0], leaf)] = tensor;
      }
    }
    if (dequantised_) into_[name] = Plain(*dequantised_, stack.shape, whole);
  }

 private:
  const LayoutOptions& options_;
  std::optional<DType> dequantised_;
  OwnedTensors& into_;
};

/// A table is quantised with one scale for all its pieces: a power of two that fits them.
void WriteTable(const std::string& name, const TensorView& piece, std::optional<DType> dequantised,
                OwnedTensors& into) {
  constexpr float kScale = 0x1p-10f;
  std::vector<float> values = ReadFloats(piece);
  values[0] = 448 * kScale;  // so that every piece has this scale
  for (float& value : values) value = std::clamp(value, -values[0], values[0]);
  const auto matrix =
      Quantise({.layout = Layout::kFp8OneScale}, values, piece.shape[0], piece.shape[1]);
  if (dequantised) {
    into[name] = Plain(*dequantised, piece.shape, matrix.values);
    return;
  }
  into[name] = matrix.tensors.at("weight");
  into[name.substr(0, name.find("shard_")) + "weight_scale"] = matrix.tensors.at("weight_scale");
}

OwnedTensors MakeTensors(const QuantisedVariant& variant) {
  OwnedTensors tensors;
  for (const auto& [name, view] : Bundled()) {
    const auto& layout = name.starts_with("mtp.") ? variant.draft : variant.experts;
    if (name.find(".experts.") != name.npos && layout) {
      ExpertWriter(*layout, variant.dequantised, tensors).Write(name, view);
    } else if (name.find(".ngram_embedding.") != name.npos && variant.fp8_tables) {
      WriteTable(name, view, variant.dequantised, tensors);
    } else {
      tensors[name] = Copy(view);
    }
  }
  return tensors;
}

/// Tests write one variant several times, with something else broken each time.
OwnedTensors TensorsOf(const QuantisedVariant& variant) {
  const std::tuple key(variant.experts, variant.draft, variant.fp8_tables, variant.dequantised);
  static std::optional<std::pair<decltype(key), OwnedTensors>> last;
  if (!last || last->first != key) last.emplace(key, MakeTensors(variant));
  return last->second;
}

}  // namespace

void WriteQuantisedVariant(const std::filesystem::path& dir, const QuantisedVariant& variant) {
  std::filesystem::create_directories(dir);
  for (const auto& entry : std::filesystem::directory_iterator(BundledModel())) {
    const auto name = entry.path().filename();
    if (name.string().find("safetensors") != std::string::npos || name == "config.json") continue;
    std::filesystem::create_symlink(entry.path(), dir / name);
  }
  Json config = OrThrow(ReadJsonFile(BundledModel() / "config.json", 1 << 20));
  if (!variant.quantization_config.is_null() && !variant.dequantised) {
    config["quantization_config"] = variant.quantization_config;
  }
  OwnedTensors tensors = TensorsOf(variant);
  if (variant.change) variant.change(tensors, config);
  WriteFile(dir / "config.json", DumpJson(config));
  WriteFile(dir / kShard, SerializeSafetensors(ViewsOf(tensors)));
  Json index = {{"weight_map", Json::object()}};
  for (const auto& [name, tensor] : tensors) index["weight_map"][name] = kShard;
  WriteFile(dir / kIndexFile, DumpJson(index));
}

Json ConfigOf(const LayoutOptions& experts) {
  const Json rest = {"*linear_attn*",   "*self_attn*", "*hyper_connection*",
                     "*shared_expert*", "*mlp.gate",   "*.ple.*",
                     "mtp.*",           "lm_head",     "*embed_tokens"};
  const auto compressed = [&](const char* format, Json weights) {
    return Json{{"quant_method", "compressed-tensors"},
                {"format", format},
                {"ignore", rest},
                {"config_groups",
                 {{"group_0", {{"targets", {"Linear"}}, {"weights", std::move(weights)}}}}}};
  };
  switch (experts.layout) {
    case Layout::kFp8Blocks:
    case Layout::kFp8OneScale:
      return {{"quant_method", "fp8"},
              {"weight_block_size", {128, 128}},
              {"modules_to_not_convert", rest}};
    case Layout::kModelOptNvfp4:
      return {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", rest}};
    case Layout::kCompressedNvfp4:
      return compressed("nvfp4-pack-quantized", {{"num_bits", 4}, {"type", "float"}});
    case Layout::kCompressedInt4:
      return compressed("pack-quantized", {{"num_bits", 4},
                                           {"type", "int"},
                                           {"group_size", experts.group},
                                           {"symmetric", !experts.zero_points}});
    case Layout::kAwq:
      return {{"quant_method", "awq"},
              {"bits", 4},
              {"group_size", experts.group},
              {"modules_to_not_convert", rest}};
    default:
      return {{"quant_method", "gptq"},
              {"bits", 4},
              {"group_size", experts.group},
              {"checkpoint_format", experts.layout == Layout::kGptq ? "gptq" : "gptq_v2"},
              {"modules_to_not_convert", rest}};
  }
}

QuantisedVariant ExpertsIn(const LayoutOptions& experts) {
  QuantisedVariant variant;
  variant.experts = experts;
  variant.quantization_config = ConfigOf(experts);
  return variant;
}

}  // namespace kv8::test
