// Whole checkpoints in each layout: bound, composed, and refused where they contradict themselves.
#include "support/quantised_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "family/bind_model.h"
#include "family/checkpoint.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "tensor/weight_row.h"

namespace kv8 {
namespace {

using test::ExpertsIn;
using test::Layout;
using test::LayoutOptions;
using test::MakeTensor;
using test::OwnedTensors;
using test::QuantisedVariant;
using testing::HasSubstr;

constexpr const char* kExpert = "model.language_model.layers.2.mlp.experts.5.";
constexpr const char* kTable = "model.language_model.layers.1.ple.ple_embedding.ngram_embedding.";

std::vector<LayoutOptions> Layouts() {
  using enum Layout;
  return {{kFp8Blocks, 0, false, DType::kF32},
          {kFp8Blocks},
          {kModelOptNvfp4},
          {kCompressedNvfp4},
          {kCompressedInt4, 32, true},
          {kCompressedInt4, 64},
          {kGptq, 32, true, DType::kF16},
          {kGptqV2, 64, true, DType::kF16},
          {kAwq, 32, true, DType::kF16}};
}

class QuantisedCheckpoint : public testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name, const QuantisedVariant& variant) const {
    test::WriteQuantisedVariant(dir_ / name, variant);
    return dir_ / name;
  }
  /// What opening and binding a variant comes to.
  Result<void> Try(const QuantisedVariant& variant,
                   const std::vector<std::filesystem::path>& overlays = {}) const {
    std::filesystem::remove_all(dir_ / "tried");
    KV8_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                         Checkpoint::Open(Write("tried", variant), overlays));
    KV8_RETURN_IF_ERROR(BindModel(checkpoint.config(), CheckpointSource(checkpoint)));
    return {};
  }
  void ExpectRefused(const QuantisedVariant& variant, std::string_view tensor,
                     std::string_view words) const {
    const auto tried = Try(variant);
    ASSERT_FALSE(tried.ok()) << words;
    EXPECT_THAT(tried.error().ToString(), HasSubstr(std::string(tensor)));
    EXPECT_THAT(tried.error().ToString(), HasSubstr(std::string(words)));
    EXPECT_NE(tried.error().remedy, "");
  }

  test::TempDir dir_;
};

/// Experts of layer 1 and of the draft head, and every row of the tables, decoded.
std::vector<float> Values(const Model& model) {
  std::vector<float> values;
  const auto add = [&](const Weight& weight) {
    std::vector<float> row(static_cast<std::size_t>(weight.cols));
    for (std::int64_t r = 0; r < weight.rows; ++r) {
      DecodeRow(weight, r, row.data());
      values.insert(values.end(), row.begin(), row.end());
    }
  };
  const auto add_layer = [&](const LayerWeights& layer) {
    if (layer.spec.number == 1 || layer.spec.number == 12) {
      for (const auto* part : {&layer.moe.gate, &layer.moe.up, &layer.moe.down}) {
        for (const Weight& weight : *part) add(weight);
      }
    }
    for (const Weight& shard : layer.ple ? layer.ple->shards : std::vector<Weight>()) add(shard);
  };
  for (const LayerWeights& layer : model.weights.layers) add_layer(layer);
  add_layer(model.weights.mtp->layer);
  return values;
}

Model Bind(const Checkpoint& checkpoint) {
  return BindModel(checkpoint.config(), CheckpointSource(checkpoint)).value();
}

TEST_F(QuantisedCheckpoint, Ckpt1_BindsWhatWasStored) {
  int i = 0;
  for (const LayoutOptions& layout : Layouts()) {
    SCOPED_TRACE(static_cast<int>(layout.layout));
    QuantisedVariant variant = ExpertsIn(layout);
    variant.fp8_tables = ++i % 2 == 0;
    const auto packed = Checkpoint::Open(Write("packed" + std::to_string(i), variant));
    ASSERT_TRUE(packed.ok()) << packed.error().ToString();
    variant.dequantised = DType::kF32;
    const Checkpoint plain = Checkpoint::Open(Write("plain" + std::to_string(i), variant)).value();
    const Model bound = Bind(*packed);
    EXPECT_EQ(Values(bound), Values(Bind(plain)));
    EXPECT_FALSE(IsPlain(bound.weights.layers[0].moe.gate[0].format));
    EXPECT_TRUE(IsPlain(bound.weights.mtp->layer.moe.gate[0].format));
  }
}

/// NVFP4 experts, an FP8 table that the configuration leaves alone, FP8 blocks in the draft head.
QuantisedVariant MixedPrecision(const char* algorithm) {
  QuantisedVariant variant = ExpertsIn({Layout::kModelOptNvfp4});
  variant.draft = LayoutOptions{Layout::kFp8Blocks};
  variant.fp8_tables = true;
  Json layers = {{"mtp.layers.0.mlp.experts", {{"quant_algo", algorithm}, {"group_size", 128}}}};
  for (int layer = 0; layer < 12; ++layer) {
    layers["model.language_model.layers." + std::to_string(layer) + ".mlp.experts"] = {
        {"quant_algo", "NVFP4"}, {"group_size", 16}};
  }
  variant.quantization_config = {{"quant_method", "modelopt"},
                                 {"quant_algo", "MIXED_PRECISION"},
                                 {"ignore", {"*.ple.*", "mtp.fc*", "lm_head"}},
                                 {"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}}},
                                 {"quantized_layers", layers}};
  return variant;
}

TEST_F(QuantisedCheckpoint, Ckpt8_MixedPrecisionReportsItsDisagreements) {
  for (const char* algorithm : {"FP8_PB_WO", "FP8_BLOCK_SCALES"}) {
    const Checkpoint checkpoint =
        Checkpoint::Open(Write(algorithm, MixedPrecision(algorithm))).value();
    const Model model = Bind(checkpoint);
    EXPECT_EQ(model.weights.mtp->layer.moe.gate[0].format, WeightFormat::kFp8);
    ASSERT_EQ(checkpoint.disagreements().size(), 2u);
    EXPECT_THAT(checkpoint.disagreements()[0], HasSubstr("--kv-cache-dtype"));
    EXPECT_THAT(checkpoint.disagreements()[1],
                HasSubstr("ignore holds the n-gram table, which is FP8"));
  }
}

TEST_F(QuantisedCheckpoint, TheProducersFileDescribesToo) {
  QuantisedVariant variant = MixedPrecision("FP8_PB_WO");
  const Json quantization = std::exchange(variant.quantization_config, Json());
  const auto dir = Write("beside", variant);
  test::WriteFile(dir / "hf_quant_config.json", DumpJson({{"quantization", quantization}}));
  EXPECT_EQ(Checkpoint::Open(dir).value().disagreements().size(), 2u);
  test::WriteFile(dir / "hf_quant_config.json", R"({"quantization": {"quant_algo": "FP8_PB_WO"}})");
  EXPECT_THAT(Checkpoint::Open(dir).error().what,
              HasSubstr("hf_quant_config.json: quantization: quant_algo is \"FP8_PB_WO\""));
}

TEST_F(QuantisedCheckpoint, Ckpt8_ConfigurationsThatContradictTheTensors) {
  QuantisedVariant variant = ExpertsIn({Layout::kCompressedInt4, 32, true});
  Json& weights = variant.quantization_config["config_groups"]["group_0"]["weights"];
  weights["group_size"] = 64;
  ExpectRefused(variant, "experts.0.down_proj.weight", "group_size is 64, its scales make it 32");
  weights["group_size"] = 32;
  weights["symmetric"] = true;
  ExpectRefused(variant, "experts.0.down_proj.weight", "symmetric is true");
  weights["symmetric"] = false;
  weights["type"] = "float";
  ExpectRefused(variant, "experts.0.down_proj.weight", "float of 4 bits");
  variant = ExpertsIn({Layout::kFp8Blocks});
  variant.quantization_config["modules_to_not_convert"].push_back("*experts*");
  ExpectRefused(variant, "experts.0.down_proj.weight",
                "modules_to_not_convert leaves it as it is (*experts*)");
  variant = QuantisedVariant();
  variant.quantization_config = {{"quant_method", "fp8"}};
  ExpectRefused(variant, "lm_head", "none are");
  variant = ExpertsIn({Layout::kGptq, 32, true});
  variant.quantization_config = Json();
  ExpectRefused(variant, "experts.0.gate_proj.qzeros", "checkpoint_format");
}

/// Tensors of experts that are not all alike.
TEST_F(QuantisedCheckpoint, Ckpt6_ExpertsThatAreHalfQuantised) {
  QuantisedVariant variant = ExpertsIn({Layout::kModelOptNvfp4});
  variant.change = [](OwnedTensors& tensors, Json&) {
    for (const char* leaf : {"weight", "weight_scale", "weight_scale_2", "input_scale"}) {
      tensors.erase(std::string(kExpert) + "down_proj." + leaf);
    }
    tensors[std::string(kExpert) + "down_proj.weight"] =
        MakeTensor(DType::kBF16, {192, 64}, std::vector<std::uint16_t>(192 * 64));
  };
  ExpectRefused(variant, "layers.2.mlp.experts.5.down_proj.weight",
                "is BF16 in groups of 0, expert 0's NVFP4");
  variant.change = [](OwnedTensors& tensors, Json&) {
    for (const auto& [leaf, tensor] :
         test::Quantise({Layout::kCompressedNvfp4}, std::vector<float>(64 * 192), 64, 192)
             .tensors) {
      tensors["model.language_model.layers.2.mlp.experts.0.gate_proj." + leaf] = tensor;
    }
  };
  ExpectRefused(variant, "layers.2.mlp.experts.0.gate_proj.input_scale", "no place beside");
  variant.change = [](OwnedTensors& tensors, Json&) {
    tensors.erase(std::string(kExpert) + "up_proj.weight_scale_2");
  };
  ExpectRefused(variant, "layers.2.mlp.experts.5.up_proj.weight", "weight_scale_2 is missing");
  variant.change = [](OwnedTensors& tensors, Json&) {
    tensors["model.language_model.layers.2.mlp.experts.gate_up_proj"] =
        MakeTensor(DType::kBF16, {16, 128, 192}, std::vector<std::uint16_t>(16 * 128 * 192));
  };
  ExpectRefused(variant, "layers.2.mlp.experts.0.gate_proj.weight", "the same matrix");
}

/// Gate and up may have global scales of their own: each multiplies its own sums.
TEST_F(QuantisedCheckpoint, Ckpt6_GateAndUpKeepTheirGlobalScales) {
  QuantisedVariant variant = ExpertsIn({Layout::kModelOptNvfp4});
  variant.change = [](OwnedTensors& tensors, Json&) {
    tensors[std::string(kExpert) + "up_proj.weight_scale_2"] =
        MakeTensor<float>(DType::kF32, {}, {0.125f});
  };
  const Checkpoint checkpoint = Checkpoint::Open(Write("scales", variant)).value();
  const Model model = Bind(checkpoint);
  EXPECT_EQ(model.weights.layers[2].moe.up[5].global_scale, 0.125f);
  EXPECT_NE(model.weights.layers[2].moe.gate[5].global_scale, 0.125f);
}

TEST_F(QuantisedCheckpoint, Ckpt5_ScalesThatAreNoNumbers) {
  const auto with = [](const LayoutOptions& layout, const char* leaf, auto value) {
    QuantisedVariant variant = ExpertsIn(layout);
    variant.change = [leaf, value](OwnedTensors& tensors, Json&) {
      auto& bytes = tensors.at(std::string(kExpert) + "up_proj." + leaf).bytes;
      std::memcpy(bytes.data(), &value, sizeof(value));
    };
    return variant;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::uint16_t bf16_infinity = 0x7F80, fp16_nan = 0x7E00;
  const std::uint8_t e4m3_nan = 0x7F;
  using enum Layout;
  ExpectRefused(with({kModelOptNvfp4}, "weight_scale_2", nan), "5.up_proj.weight_scale_2",
                "positive finite");
  ExpectRefused(with({kModelOptNvfp4}, "weight_scale_2", 0.0f), "5.up_proj.weight_scale_2", "is 0");
  ExpectRefused(with({kModelOptNvfp4}, "weight_scale", e4m3_nan), "5.up_proj.weight_scale",
                "NaN or infinite");
  ExpectRefused(with({kFp8Blocks}, "weight_scale_inv", bf16_infinity), "5.up_proj.weight_scale_inv",
                "NaN or infinite");
  ExpectRefused(with({kCompressedInt4}, "weight_scale", bf16_infinity), "5.up_proj.weight_scale",
                "NaN or infinite");
  ExpectRefused(with({kGptq, 32, true, DType::kF16}, "scales", fp16_nan), "5.up_proj.scales",
                "NaN or infinite");
}

TEST_F(QuantisedCheckpoint, Ckpt8_TablesAreWhatTheirTensorsSay) {
  QuantisedVariant variant;
  variant.fp8_tables = true;
  variant.change = [](OwnedTensors& tensors, Json&) {
    tensors.erase(std::string(kTable) + "weight_scale");
  };
  ExpectRefused(variant, "ngram_embedding.shard_0.weight", "F8_E4M3");
  variant.change = [](OwnedTensors&, Json& config) {
    config["text_config"]["ple_embedding_dtype"] = "bfloat16";
  };
  ExpectRefused(variant, "ngram_embedding.shard_0.weight", "ple_embedding_dtype is \"bfloat16\"");
  variant.change = [](OwnedTensors&, Json& config) {
    config["text_config"]["ple_embedding_dtype"] = "float8_e4m3fn";
  };
  EXPECT_TRUE(Try(variant).ok());
}

TEST_F(QuantisedCheckpoint, Ckpt10_OverlaysReplaceExpertsTablesAndDraft) {
  const auto base = Write("base", ExpertsIn({Layout::kCompressedInt4, 32, true}));
  QuantisedVariant other = ExpertsIn({Layout::kModelOptNvfp4});
  other.fp8_tables = true;
  other.change = [](OwnedTensors& tensors, Json&) {
    std::erase_if(tensors, [](const auto& tensor) {
      return tensor.first.find(".experts.") == std::string::npos &&
             tensor.first.find(".ngram_embedding.") == std::string::npos;
    });
  };
  QuantisedVariant draft;
  draft.draft = LayoutOptions{Layout::kFp8Blocks};
  draft.change = [](OwnedTensors& tensors, Json&) {
    std::erase_if(tensors, [](const auto& tensor) { return !tensor.first.starts_with("mtp."); });
  };
  const auto first = Write("first", other), last = Write("last", draft);
  std::filesystem::remove(last / "model.safetensors.index.json");
  std::filesystem::remove(last / "config.json");
  const auto composed = Checkpoint::Open(base, std::vector{first, last});
  ASSERT_TRUE(composed.ok()) << composed.error().ToString();
  const Model model = Bind(*composed);
  EXPECT_EQ(model.weights.layers[0].moe.gate[0].format, WeightFormat::kNvfp4);
  EXPECT_EQ(model.weights.layers[1].ple->shards[0].format, WeightFormat::kFp8);
  EXPECT_EQ(model.weights.mtp->layer.moe.gate[0].format, WeightFormat::kFp8);
  EXPECT_EQ(composed->dir(), base);
  EXPECT_EQ(composed->FileOf("model.layers.0.mlp.experts.0.gate_proj.weight").parent_path(), first);
  EXPECT_EQ(composed->Find("model.layers.0.mlp.experts.0.gate_proj.weight_packed"), nullptr);
  // The order counts, and is part of what the checkpoint is called.
  const auto turned = Checkpoint::Open(base, std::vector{last, first});
  ASSERT_TRUE(turned.ok()) << turned.error().ToString();
  EXPECT_TRUE(IsPlain(Bind(*turned).weights.mtp->layer.moe.gate[0].format));
  EXPECT_NE(composed->index_sha256(), turned->index_sha256());
  EXPECT_NE(composed->index_sha256(), Checkpoint::Open(base)->index_sha256());
}

TEST_F(QuantisedCheckpoint, Ckpt10_OverlaysOfAnotherModelAreRefused) {
  QuantisedVariant other = ExpertsIn({Layout::kModelOptNvfp4});
  other.change = [](OwnedTensors&, Json& config) { config["text_config"]["rms_norm_eps"] = 1e-5; };
  const auto different = Checkpoint::Open(test::BundledModel(), std::vector{Write("a", other)});
  ASSERT_FALSE(different.ok());
  EXPECT_THAT(different.error().ToString(), HasSubstr("a/config.json: rms_norm_eps is 1e-05"));
  other.change = [](OwnedTensors& tensors, Json&) {
    std::erase_if(tensors, [](const auto& tensor) {
      return tensor.first.find(".experts.7.") != std::string::npos;
    });
  };
  const auto part = Write("b", other);
  std::filesystem::remove(part / "config.json");
  const auto tried = Try(QuantisedVariant(), {part});
  ASSERT_FALSE(tried.ok());
  EXPECT_THAT(tried.error().ToString(),
              HasSubstr("no tensor model.layers.0.mlp.experts.7.gate_proj"));
  std::filesystem::create_directory(dir_ / "empty");
  const auto empty = Checkpoint::Open(test::BundledModel(), std::vector{dir_ / "empty"});
  ASSERT_FALSE(empty.ok());
  EXPECT_THAT(empty.error().ToString(), HasSubstr("holds no safetensors file"));
}

}  // namespace
}  // namespace kv8
