#include "calib/partial_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/temp_dir.h"

namespace kv8 {
namespace {

using test::TempDir;
using testing::HasSubstr;

const Json kIdentity = {{"corpus_sha256", {"aa", "bb"}}, {"max_tokens", nullptr}};

PartialState SomeState() {
  PartialState state;
  state.pass = CalibrationPass::kSaturation;
  state.position = {
      .corpus = {.file = 1, .offset = 1234567890123, .line = 42}, .documents = 7, .tokens = 99};
  state.report.base = {.kv_weights_sha256 = std::string(64, 'a'),
                       .weights_sha256 = std::string(64, 'b'),
                       .config = {{"rms_norm_eps", 1e-6}}};
  state.report.layer_prefix = "model.layers.";
  state.report.target_layers = 12;
  state.report.documents = 8;
  state.report.tokens = 100;
  SideStatistics side;
  side.count = side.finite_count = 3;
  side.nonzero_count = 2;
  side.max_abs = 0.1f;
  side.saturation_checked_count = 3;
  side.saturated_count = 1;
  side.histogram.bins[static_cast<std::size_t>(LogHistogram::BinOf(0.1f))] = 2;
  side.shard_max_abs = {{"en", 0.1f}, {"zh", 0.05f}};
  state.report.layers = {{.layer = 3, .k = side, .v = side}};
  return state;
}

TEST(PartialState, LiesBesideTheOutput) {
  EXPECT_EQ(PartialPath("out/report.json"), "out/report.json.partial");
}

TEST(PartialState, ComesBackExactly) {
  const TempDir dir;
  const PartialState state = SomeState();
  ASSERT_TRUE(SavePartial(dir / "p", kIdentity, state).ok());
  const auto loaded = LoadPartial(dir / "p", kIdentity);
  ASSERT_TRUE(loaded.ok()) << loaded.error().ToString();
  ASSERT_TRUE(loaded->has_value());
  const PartialState& back = **loaded;
  EXPECT_EQ(back.pass, state.pass);
  EXPECT_EQ(back.position.corpus.file, state.position.corpus.file);
  EXPECT_EQ(back.position.corpus.offset, state.position.corpus.offset);
  EXPECT_EQ(back.position.corpus.line, state.position.corpus.line);
  EXPECT_EQ(back.position.documents, state.position.documents);
  EXPECT_EQ(back.position.tokens, state.position.tokens);
  EXPECT_EQ(ReportToJson(back.report), ReportToJson(state.report));
}

TEST(PartialState, AbsentIsNotAnError) {
  const TempDir dir;
  const auto loaded = LoadPartial(dir / "p", kIdentity);
  ASSERT_TRUE(loaded.ok());
  EXPECT_FALSE(loaded->has_value());
}

TEST(PartialState, RefusesOtherInputsByName) {
  const TempDir dir;
  ASSERT_TRUE(SavePartial(dir / "p", kIdentity, SomeState()).ok());
  Json other = kIdentity;
  other["max_tokens"] = 5;
  const auto loaded = LoadPartial(dir / "p", other);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Code::kMismatch);
  EXPECT_EQ(loaded.error().where, (dir / "p").string());
  EXPECT_THAT(loaded.error().what, HasSubstr("\"max_tokens\": null; now it is 5"));
  EXPECT_THAT(loaded.error().remedy, HasSubstr("--restart"));
}

TEST(PartialState, RefusesDamage) {
  const TempDir dir;
  ASSERT_TRUE(SavePartial(dir / "p", kIdentity, SomeState()).ok());
  const std::string whole = *ReadFile(dir / "p", 1 << 20);
  const auto expect_refused = [&](const std::string& content) {
    test::WriteFile(dir / "p", content);
    const auto loaded = LoadPartial(dir / "p", kIdentity);
    ASSERT_FALSE(loaded.ok()) << content.substr(0, 80);
    EXPECT_EQ(loaded.error().code, Code::kCorrupt);
    EXPECT_THAT(loaded.error().remedy, HasSubstr("--restart"));
  };
  expect_refused("");
  expect_refused("[]");
  expect_refused("{}");
  expect_refused(whole.substr(0, whole.size() / 2));
  Json json = *ParseJson(whole, "p");
  json["position"]["pass"] = 3;
  expect_refused(json.dump());
  json = *ParseJson(whole, "p");
  json["position"]["offset"] = -1;
  expect_refused(json.dump());
  json = *ParseJson(whole, "p");
  json["format"] = "version 2";
  expect_refused(json.dump());
  json = *ParseJson(whole, "p");
  json["report"].erase("tensors");
  expect_refused(json.dump());
  json = *ParseJson(whole, "p");
  json["position"]["tokens"] = 98;  // no contradiction to anything
  expect_refused(json.dump());
  json = *ParseJson(whole, "p");
  json["report"]["tokens"] = 101;
  expect_refused(json.dump());
}

}  // namespace
}  // namespace kv8
