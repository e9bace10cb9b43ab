#include "checkpoint/quantization_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace kv8 {
namespace {

using ::testing::HasSubstr;

QuantizationConfig Parsed(const char* text) {
  auto config = QuantizationConfig::Parse(Json::parse(text), "c");
  EXPECT_TRUE(config.ok()) << config.error().ToString();
  return std::move(config).value();
}

QuantizationClaim ClaimOf(const QuantizationConfig& config, std::string_view module) {
  return config.ClaimOf(std::array{module});
}

/// What llm-compressor writes beside a checkpoint whose K/V cache alone is quantised.
TEST(QuantizationConfig, Ckpt9_OneOfTheCacheAloneClaimsNothingAndIsReported) {
  const QuantizationConfig config = Parsed(R"({
    "config_groups": {}, "format": "dense", "global_compression_ratio": null, "ignore": ["lm_head"],
    "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "strategy": "tensor", "type": "float"},
    "quant_method": "compressed-tensors", "quantization_status": "frozen",
    "sparsity_config": {}, "transform_config": {}, "version": "0.12.2"})");
  EXPECT_FALSE(config.claims_any());
  ASSERT_EQ(config.notes().size(), 1u);
  EXPECT_THAT(config.notes()[0], HasSubstr("kv_cache_scheme"));
  EXPECT_FALSE(Parsed("{}").claims_any());
}

TEST(QuantizationConfig, ModelOpt) {
  const QuantizationConfig config = Parsed(R"({"quant_method": "modelopt", "quant_algo": "NVFP4",
    "config_groups": {"group_0": {}}, "ignore": ["lm_head", "*.ple.*", "mtp.*"]})");
  const auto expert = ClaimOf(config, "model.layers.0.mlp.experts.3.gate_proj");
  ASSERT_NE(expert.scheme, nullptr);
  EXPECT_EQ(expert.scheme->format, WeightFormat::kNvfp4);
  EXPECT_EQ(expert.scheme->group, 16);
  EXPECT_EQ(ClaimOf(config, "model.layers.1.ple.ple_embedding.ngram_embedding").ignored_by,
            "*.ple.*");
  EXPECT_EQ(ClaimOf(config, "lm_head").ignored_by, "lm_head");
}

TEST(QuantizationConfig, ModelOptLayersByNameComeBeforeWhatIsIgnored) {
  for (const char* algorithm : {"FP8_PB_WO", "FP8_BLOCK_SCALES"}) {
    const Json json = {
        {"quant_algo", "MIXED_PRECISION"},
        {"exclude_modules", {"mtp.*"}},
        {"quantized_layers",
         {{"mtp.layers.0.mlp.experts", {{"quant_algo", algorithm}, {"group_size", 128}}},
          {"a.mlp.experts", {{"quant_algo", "NVFP4"}, {"group_size", 16}}}}}};
    const auto config = QuantizationConfig::Parse(json, "c").value();
    const auto draft = ClaimOf(config, "mtp.layers.0.mlp.experts.2.up_proj");
    ASSERT_NE(draft.scheme, nullptr);
    EXPECT_EQ(draft.scheme->format, WeightFormat::kFp8);
    EXPECT_EQ(draft.scheme->group, 128);
    EXPECT_EQ(ClaimOf(config, "mtp.fc_hidden").ignored_by, "mtp.*");
    EXPECT_EQ(ClaimOf(config, "a.mlp.experts.0.up_proj").scheme->format, WeightFormat::kNvfp4);
    EXPECT_EQ(ClaimOf(config, "b").scheme, nullptr);
  }
}

TEST(QuantizationConfig, CompressedTensors) {
  const QuantizationConfig config = Parsed(R"({"quant_method": "compressed-tensors",
    "format": "pack-quantized", "ignore": ["re:.*mlp.gate$"], "config_groups": {
      "a": {"targets": ["re:.*down_proj"], "weights": {"num_bits": 8, "type": "float"}},
      "b": {"targets": ["Linear"], "weights":
        {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": false}}}})");
  const auto down = ClaimOf(config, "x.down_proj"), up = ClaimOf(config, "x.up_proj");
  EXPECT_EQ(down.scheme->format, WeightFormat::kFp8);
  EXPECT_EQ(up.scheme->format, WeightFormat::kInt4);
  EXPECT_EQ(up.scheme->group, 32);
  EXPECT_EQ(up.scheme->symmetric, false);
  EXPECT_EQ(ClaimOf(config, "x.mlp.gate").ignored_by, "re:.*mlp.gate$");
}

TEST(QuantizationConfig, Fp8Blocks) {
  const QuantizationConfig config = Parsed(R"({"quant_method": "fp8", "fmt": "e4m3",
    "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]})");
  EXPECT_EQ(ClaimOf(config, "x").scheme->group, 128);
  EXPECT_EQ(ClaimOf(config, "lm_head").scheme, nullptr);
}

TEST(QuantizationConfig, Ckpt7_WhatGptqZerosHold) {
  const auto zeros = [](const char* method, const char* key, const char* format) {
    const Json json = {{"quant_method", method}, {"bits", 4}, {"group_size", 128}, {key, format}};
    return QuantizationConfig::Parse(json, "c").value().gptq_zeros();
  };
  EXPECT_EQ(zeros("gptq", "checkpoint_format", "gptq"), GptqZeros::kLessOne);
  EXPECT_EQ(zeros("gptq", "checkpoint_format", "gptq_v2"), GptqZeros::kPlain);
  EXPECT_EQ(zeros("gptq", "damp_percent", "0.01"), GptqZeros::kLessOne);
  EXPECT_EQ(zeros("auto-round", "packing_format", "auto_round:auto_gptq"), GptqZeros::kLessOne);
  EXPECT_EQ(zeros("auto-round", "packing_format", "auto_round:auto_awq"), std::nullopt);
  EXPECT_EQ(zeros("awq", "version", "gemm"), std::nullopt);
}

struct Refused {
  const char* config;
  const char* named;
};

TEST(QuantizationConfig, RefusesWhatItDoesNotReadByName) {
  for (
      const auto& [config, named] : {
          Refused{R"("fp8")", "is \"fp8\""},
          Refused{R"({"quant_method": "mxfp4"})", "quant_method is \"mxfp4\""},
          Refused{R"({"quant_method": "exl3"})", "quant_method is \"exl3\""},
          Refused{R"({"quant_method": "bitsandbytes"})", "quant_method is"},
          Refused{R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})",
                  "quant_algo is \"MXFP8\""},
          Refused{
              R"({"quant_algo": "MIXED_PRECISION", "quantized_layers": {"x": {"quant_algo": "INT8"}}})",
              "quantized_layers: x: quant_algo is \"INT8\""},
          Refused{R"({"quant_algo": "NVFP4", "quantized_layers": []})", "quantized_layers is"},
          Refused{R"({"quant_method": "fp8", "weight_block_size": [64, 128]})", "[64,128]"},
          Refused{R"({"quant_method": "fp8", "fmt": "e5m2"})", "fmt is"},
          Refused{R"({"quant_method": "gptq", "bits": 3})", "bits is 3"},
          Refused{R"({"quant_method": "gptq", "bits": 4, "desc_act": true})", "act-order"},
          Refused{R"({"quant_method": "gptq", "checkpoint_format": "marlin"})",
                  "checkpoint_format"},
          Refused{R"({"quant_method": "auto-round"})", "packing_format"},
          Refused{R"({"quant_method": "awq", "version": "gemv"})", "version is"},
          Refused{R"({"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq",
                       "extra_config": {"x": {"bits": 8}}})",
                  "extra_config: x: bits is 8"},
          Refused{R"({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"})",
                  "MXFP4"},
          Refused{R"({"sparsity_config": {"format": "dense"}})", "sparsity_config"},
          Refused{R"({"transform_config": {"x": 1}})", "transform_config"},
          Refused{R"({"config_groups": {"g": 1}})", "config_groups: g is 1"},
          Refused{R"({"ignore": "lm_head"})", "ignore is \"lm_head\""},
      }) {
    const auto parsed = QuantizationConfig::Parse(Json::parse(config), "c");
    ASSERT_FALSE(parsed.ok()) << config;
    EXPECT_EQ(parsed.error().code, Code::kUnsupported) << config;
    EXPECT_THAT(parsed.error().ToString(), HasSubstr(named));
  }
}

}  // namespace
}  // namespace kv8
