#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

const std::filesystem::path kModel = std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp";

TEST(Checkpoint, OpensTheBundledModel) {
  const auto checkpoint = Checkpoint::Open(kModel);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().ToString();
  EXPECT_EQ(checkpoint->layer_prefix(), "model.language_model.layers.");
  EXPECT_EQ(checkpoint->stop_ids(), (std::vector<TokenId>{2, 0}));
  EXPECT_EQ(checkpoint->config().QsaLayers(), (std::vector<int>{3, 7, 11}));
  EXPECT_NE(checkpoint->Find("model.embed_tokens.weight"), nullptr);
  EXPECT_NE(checkpoint->Find("mtp.fc_hidden.weight"), nullptr);
}

}  // namespace
}  // namespace kv8
