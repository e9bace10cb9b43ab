#include "family/tensor_names.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

TEST(CanonicalName, FoldsEverySpelling) {
  EXPECT_EQ(CanonicalName("model.language_model.layers.3.mlp.gate.weight"),
            "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(CanonicalName("model.layers.3.mlp.gate.weight"), "model.layers.3.mlp.gate.weight");
  EXPECT_EQ(CanonicalName("mtp.fc_hidden.weight"), "mtp.fc_hidden.weight");
  EXPECT_EQ(CanonicalName("model.mtp.fc_hidden.weight"), "mtp.fc_hidden.weight");
  EXPECT_EQ(CanonicalName("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(CanonicalName("mtp.shared_head.head.weight"), "lm_head.weight");
  EXPECT_EQ(CanonicalName("model.mtp.shared_head.head.weight"), "lm_head.weight");
}

TEST(CanonicalName, LeavesOutWhatIsNotPartOfTheTextModel) {
  EXPECT_EQ(CanonicalName("model.visual.blocks.0.attn.qkv.weight"), std::nullopt);
  EXPECT_EQ(CanonicalName("model.language_model.layers.1.ple.hashstats_hits"), std::nullopt);
  EXPECT_EQ(CanonicalName("model.layers.1.ple.ple_embedding.token_lookup_table"), std::nullopt);
  EXPECT_NE(CanonicalName("model.token_lookup.weight"), std::nullopt);
}

TEST(LayerVoteOf, SplitsAtTheFirstMarker) {
  const auto vote = LayerVoteOf("model.language_model.layers.17.self_attn.k_proj.weight");
  ASSERT_TRUE(vote);
  EXPECT_EQ(vote->prefix, "model.language_model.layers.");
  EXPECT_EQ(vote->layer, "17");
  for (const char* name :
       {"model.layers.1.self_attn.v_proj.weight", "model.layers.x.self_attn.k_proj.weight",
        "model.layers..self_attn.k_proj.weight", "layers.1.self_attn.k_proj.weight",
        "model.layers.self_attn.k_proj.weight", "model.layers.1.self_attn.k_proj.weight.bak",
        "mtp.layers.0.self_attn.k_proj.weight", "model.mtp.layers.0.self_attn.k_proj.weight"}) {
    EXPECT_FALSE(LayerVoteOf(name)) << name;
  }
}

}  // namespace
}  // namespace kv8
