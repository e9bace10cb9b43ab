#include "proof/part_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proof/measurements.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

using testing::HasSubstr;

const Json kIdentity = {{"corpus_sha256", "c"}, {"format", 1}};

TEST(PartStore, GivesBackWhatWasSaved) {
  const test::TempDir dir;
  const PartStore store(dir.path());
  EXPECT_FALSE(store.Load("a", kIdentity)->has_value());
  ASSERT_TRUE(store.Save("a", kIdentity, {{"x", 0.1}}).ok());
  EXPECT_EQ(store.Load("a", kIdentity)->value(), Json({{"x", 0.1}}));
}

TEST(PartStore, Verify3_NamesWhatDiffers) {
  const test::TempDir dir;
  const PartStore store(dir.path());
  ASSERT_TRUE(store.Save("a", kIdentity, {{"x", 1}}).ok());
  const auto other = store.Load("a", {{"corpus_sha256", "d"}, {"format", 1}});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, Code::kMismatch);
  EXPECT_THAT(other.error().what, HasSubstr("corpus_sha256"));
}

TEST(PartStore, Verify3_RefusesAChangedFile) {
  const test::TempDir dir;
  const PartStore store(dir.path());
  ASSERT_TRUE(store.Save("a", kIdentity, {{"x", 12345}}).ok());
  std::string text = test::Slurp(store.PathOf("a"));
  text.replace(text.find("12345"), 5, "12346");
  test::WriteFile(store.PathOf("a"), text);
  EXPECT_EQ(store.Load("a", kIdentity).error().code, Code::kCorrupt);
}

TEST(Measurements, SurviveTheirFiles) {
  ArmScores scores;
  scores.texts.push_back({.nll = 0.1,
                          .nll_bits = std::string(64, 'a'),
                          .argmax = {3, 4},
                          .top = {{{7, -0.1F}, {8, -3.3F}}}});
  scores.losses = {.layers = {{.layer = 3, .saturated_k = 5}}, .tokens = 2};
  EXPECT_EQ(ToJson(*ScoresFromJson(ToJson(scores), "f")), ToJson(scores));
  ArmOutputs outputs;
  outputs.items.push_back({.ids = {1}, .right = true, .drafted_at = {2, 1}, .accepted_at = {1, 0}});
  EXPECT_EQ(ToJson(*OutputsFromJson(ToJson(outputs), "f")), ToJson(outputs));
  Json bad = ToJson(outputs);
  bad["items"][0]["accepted_at"] = {1};
  EXPECT_THAT(OutputsFromJson(bad, "f").error().what, HasSubstr("accepted_at"));
  bad = ToJson(scores);
  bad["texts"][0]["top"] = {{7}};
  EXPECT_FALSE(ScoresFromJson(bad, "f").ok());
}

}  // namespace
}  // namespace kv8
