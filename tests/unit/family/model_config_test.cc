#include "family/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace kv8 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kConfig =
    std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp/config.json";

Json Bundled() {
  auto json = ReadJsonFile(kConfig, 1 << 20);
  EXPECT_TRUE(json.ok());
  return *json;
}

Json Flat() {
  Json flat = Bundled()["text_config"];
  flat["architectures"] = {"Qwen4ExpForCausalLM"};
  return flat;
}

TEST(ReadModelSpec, ReadsTheBundledModel) {
  const auto config = ReadModelSpec(Bundled(), "t");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->hidden, 192);
  EXPECT_EQ(config->layer_count(), 12);
  EXPECT_EQ(config->vocab, 6144);
  EXPECT_EQ(config->max_positions, 16384);
  EXPECT_FLOAT_EQ(config->rms_eps, 1e-6f);
  EXPECT_EQ(config->streams, 4);
  EXPECT_EQ(config->lowrank, 32);
  EXPECT_EQ(config->eos, 0);
  EXPECT_THAT(config->KvLayerNumbers(), ElementsAre(3, 7, 11));
  EXPECT_EQ(config->gdn.conv_channels(), 512);
  EXPECT_EQ(config->qsa.query_heads, 12);
  EXPECT_EQ(config->qsa.rotary_dim, 16);
  EXPECT_EQ(config->qsa.rope_theta, 1e6);
  EXPECT_EQ(config->qsa.selection_block_tokens, 4);
  EXPECT_EQ(config->qsa.budget_selection_blocks, 64);
  EXPECT_EQ(config->moe.experts, 16);
  ASSERT_TRUE(config->ple);
  EXPECT_THAT(config->ple->layers, ElementsAre(1, 5));
  EXPECT_EQ(config->ple->seed, 1234);
  EXPECT_EQ(config->ple->heads(), 8);
  EXPECT_EQ(config->ple->head_dim(), 24);
  ASSERT_TRUE(config->draft);
  EXPECT_EQ(config->draft->rope_theta, 1e6);
}

TEST(ReadModelSpec, ReadsTheFlatForm) {
  const auto config = ReadModelSpec(Flat(), "t");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->hidden, 192);
  EXPECT_THAT(config->KvLayerNumbers(), ElementsAre(3, 7, 11));
}

TEST(ReadModelSpec, AcceptsEverySpellingOfAnAttentionLayer) {
  for (const char* spelling : {"full_attention", "deepseek_sparse_attention", "hybrid_indexed",
                               "qwen_sparse_attention", "attention"}) {
    Json json = Flat();
    for (Json& type : json["layer_types"]) {
      if (type == "full_attention") type = spelling;
    }
    const auto config = ReadModelSpec(json, "t");
    ASSERT_TRUE(config.ok()) << config.error().ToString();
    EXPECT_THAT(config->KvLayerNumbers(), ElementsAre(3, 7, 11));
  }
}

TEST(ReadModelSpec, DerivesLayerKindsFromTheInterval) {
  Json json = Flat();
  json.erase("layer_types");
  json["full_attention_interval"] = 6;
  EXPECT_THAT(ReadModelSpec(json, "t")->KvLayerNumbers(), ElementsAre(5, 11));
  json.erase("full_attention_interval");
  EXPECT_THAT(ReadModelSpec(json, "t").error().what, HasSubstr("full_attention_interval"));
}

TEST(ReadModelSpec, ReadsRopeFromEitherPlace) {
  Json json = Flat();
  json.erase("rope_parameters");
  json["rope_theta"] = 5e5;
  const auto config = ReadModelSpec(json, "t");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_EQ(config->qsa.rope_theta, 5e5);
  EXPECT_EQ(config->qsa.rotary_dim, 16);
}

TEST(ReadModelSpec, DraftHeadAndMemoryAreOptional) {
  Json json = Flat();
  for (const char* key : {"mtp", "mtp_num_hidden_layers", "ple_layer_ids", "eos_token_id"}) {
    json.erase(key);
  }
  const auto config = ReadModelSpec(json, "t");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  EXPECT_FALSE(config->draft);
  EXPECT_FALSE(config->ple);
  EXPECT_FALSE(config->eos);
}

TEST(ReadModelSpec, DraftHeadHasItsOwnRope) {
  Json json = Flat();
  json["mtp"]["rope_theta"] = 123.0;
  EXPECT_EQ(ReadModelSpec(json, "t")->draft->rope_theta, 123);
  json["mtp"].erase("rope_theta");
  EXPECT_EQ(ReadModelSpec(json, "t")->draft->rope_theta, 1e6);
  json.erase("mtp_num_hidden_layers");  // the object alone announces it
  EXPECT_TRUE(ReadModelSpec(json, "t")->draft);
}

TEST(ReadModelSpec, KvCacheSettingsOfOtherEnginesChangeNothing) {
  Json json = Flat();
  json["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}};
  json["kv_cache_quant_algo"] = "FP8";
  EXPECT_TRUE(ReadModelSpec(json, "t").ok());
}

struct BadValue {
  const char* key;    // of the flat form; "a.b" is nested
  const char* value;  // JSON; empty to remove the key
  Code code;
  const char* what = "";
};

void PrintTo(const BadValue& bad, std::ostream* out) {
  *out << bad.key << "=" << bad.value;
}

class ParseModelConfigRefuses : public testing::TestWithParam<BadValue> {};

TEST_P(ParseModelConfigRefuses, NamingTheKey) {
  const BadValue& bad = GetParam();
  std::string pointer("/");
  pointer += bad.key;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  Json json = Flat();
  if (*bad.value == '\0') {
    json.erase(bad.key);
  } else {
    json[Json::json_pointer(pointer)] = Json::parse(bad.value);
  }
  const auto config = ReadModelSpec(json, "c.json");
  ASSERT_FALSE(config.ok());
  const std::string leaf = pointer.substr(pointer.rfind('/') + 1);
  EXPECT_THAT(config.error().where, testing::StartsWith("c.json"));
  EXPECT_THAT(config.error().where, testing::EndsWith(leaf));
  EXPECT_THAT(config.error().what, HasSubstr(leaf));
  EXPECT_THAT(config.error().what, HasSubstr(bad.what));
  EXPECT_EQ(config.error().code, bad.code) << config.error().ToString();
  EXPECT_NE(config.error().remedy, "");
}

constexpr Code kBad = Code::kCorrupt;
constexpr Code kContradiction = Code::kMismatch;
constexpr Code kOther = Code::kUnsupported;

INSTANTIATE_TEST_SUITE_P(
    MissingOrMistyped, ParseModelConfigRefuses,
    testing::Values(
        BadValue{"hidden_size", "", kBad, "missing"}, BadValue{"hidden_size", "null", kBad},
        BadValue{"hidden_size", "\"192\"", kBad}, BadValue{"hidden_size", "192.0", kBad},
        BadValue{"hidden_size", "0", kBad}, BadValue{"hidden_size", "-1", kBad},
        BadValue{"hidden_size", "65537", kBad}, BadValue{"hidden_size", "[]", kBad},
        BadValue{"hidden_size", "18446744073709551615", kBad},
        BadValue{"num_hidden_layers", "1000000000", kBad},
        BadValue{"vocab_size", "4294967296", kBad}, BadValue{"rms_norm_eps", "0", kBad},
        BadValue{"rms_norm_eps", "\"1e-6\"", kBad}, BadValue{"hc_count", "1", kBad},
        BadValue{"hc_lowrank", "", kBad}, BadValue{"max_position_embeddings", "0", kBad},
        BadValue{"output_gate_type", "", kBad}, BadValue{"attention_bias", "0", kBad},
        BadValue{"layer_types", "\"full_attention\"", kBad}, BadValue{"rope_parameters", "3", kBad},
        BadValue{"rope_parameters.rope_theta", "-1", kBad},
        BadValue{"rope_parameters.rope_theta", "\"x\"", kBad},
        BadValue{"eos_token_id", "6144", kBad}, BadValue{"eos_token_id", "[2, 0]", kBad},
        BadValue{"ple_layer_ids", "3", kBad}, BadValue{"ngram_size", "1", kBad},
        BadValue{"ngram_size", "100", kBad}, BadValue{"split_ngram_parts", "", kBad},
        BadValue{"ngram_vocab_size_base", "0", kBad},
        BadValue{"make_ngram_vocab_size_divisible_by", "0", kBad},
        BadValue{"num_experts", "", kBad}, BadValue{"linear_num_key_heads", "", kBad},
        BadValue{"indexer_n_heads", "", kBad}, BadValue{"mtp", "[]", kBad},
        BadValue{"mtp_num_hidden_layers", "-1", kBad}));

INSTANTIATE_TEST_SUITE_P(
    Contradictions, ParseModelConfigRefuses,
    testing::Values(
        BadValue{"layer_types", R"(["full_attention"])", kContradiction, "num_hidden_layers is 12"},
        BadValue{"num_attention_heads", "13", kContradiction, "num_key_value_heads 2"},
        BadValue{"linear_num_value_heads", "7", kContradiction, "linear_num_key_heads 4"},
        BadValue{"indexer_budget", "255", kContradiction, "indexer_compress_ratio 4"},
        BadValue{"indexer_head_dim", "15", kContradiction, "16 rotary"},
        BadValue{"partial_rotary_factor", "0.5", kContradiction, "rope_parameters"},
        BadValue{"rope_theta", "7", kContradiction, "rope_parameters"},
        BadValue{"num_experts_per_tok", "17", kContradiction, "num_experts 16"},
        BadValue{"ple_layer_ids", "[0]", kContradiction, "from 1 to 12"},
        BadValue{"ple_layer_ids", "[13]", kContradiction, "from 1 to 12"},
        BadValue{"ple_layer_ids", "[2, \"x\"]", kContradiction, "from 1 to 12"},
        BadValue{"ple_layer_ids", "[2, 6, 2]", kContradiction, "holds 2 twice"},
        BadValue{"ple_embed_dim", "190", kContradiction, "8 heads"},
        BadValue{"eos_token_id", "", kContradiction, "n-gram"},
        BadValue{"mtp.num_hidden_layers", "2", kContradiction, "mtp_num_hidden_layers is 1"},
        BadValue{"mtp.layer_types", "[]", kContradiction, "0 entries"}));

INSTANTIATE_TEST_SUITE_P(
    NotImplemented, ParseModelConfigRefuses,
    testing::Values(
        BadValue{"model_type", "\"llama\"", kOther, "llama"},
        BadValue{"attention_bias", "true", kOther}, BadValue{"hidden_act", "\"gelu\"", kOther},
        BadValue{"output_gate_type", "\"swish\"", kOther, "swish"},
        BadValue{"norm_topk_prob", "false", kOther},
        BadValue{"tie_word_embeddings", "true", kOther},
        BadValue{"mamba_ssm_dtype", "\"bfloat16\"", kOther},
        BadValue{"rope_parameters.rope_type", "\"yarn\"", kOther, "yarn"},
        BadValue{"rope_scaling", R"({"type": "yarn"})", kOther},
        BadValue{"indexer_kv_heads", "2", kOther}, BadValue{"indexer_compress_ratio", "3", kOther},
        BadValue{"indexer_compress_ratio", "128", kOther},
        BadValue{"mtp_num_hidden_layers", "2", kOther},
        BadValue{"mtp_use_dedicated_embeddings", "true", kOther},
        BadValue{"mtp.mtp_use_hidden_state_from_layer", "3", kOther},
        BadValue{"mtp.layer_types", R"(["linear_attention"])", kOther},
        BadValue{"ple_embedding_dtype", "\"float8_e5m2\"", kOther},
        BadValue{"ngram_vocab_size_base", "1000000000", kOther},
        BadValue{"heads_per_ngram", "129", kOther},
        BadValue{"layer_types",
                 R"(["linear_attention", "sliding_attention", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])",
                 kOther, "\"sliding_attention\" for layer 1"}));

TEST(ReadModelSpec, RotaryDimensionsComeInPairs) {
  for (const int head_dim : {18, 20}) {  // 4.5 and 5 dimensions
    Json json = Flat();
    json["head_dim"] = head_dim;
    const auto config = ReadModelSpec(json, "t");
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.error().code, Code::kMismatch);
    EXPECT_THAT(config.error().what, HasSubstr("head_dim " + std::to_string(head_dim)));
  }
}

TEST(ReadModelSpec, LooksAtBothLevels) {
  Json json = Bundled();
  json["tie_word_embeddings"] = true;
  EXPECT_EQ(ReadModelSpec(json, "t").error().code, Code::kUnsupported);
  json = Bundled();
  json["text_config"]["tie_word_embeddings"] = true;
  EXPECT_THAT(ReadModelSpec(json, "t").error().where,
              HasSubstr("text_config: tie_word_embeddings"));
}

TEST(ReadModelSpec, RefusesWhatIsNoObject) {
  for (const Json& json : {Json::array(), Json(3), Json(), Json{{"text_config", 3}}}) {
    const auto config = ReadModelSpec(json, "t");
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.error().code, Code::kCorrupt);
  }
}

}  // namespace
}  // namespace kv8
