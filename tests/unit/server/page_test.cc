#include "server/page/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "server/page/state_json.h"

namespace kv8 {
namespace {

using std::chrono::seconds, std::chrono::steady_clock;
using testing::HasSubstr, testing::Not;

EngineSnapshot SomeSnapshot() {
  EngineSnapshot snapshot;
  snapshot.taken = steady_clock::time_point(seconds(100));
  snapshot.statistics.running = 2;
  snapshot.statistics.generated_tokens = 7;
  snapshot.statistics.speculation.drafted_at = {4, 3};
  snapshot.statistics.speculation.accepted_at = {2, 1};
  snapshot.kv_cache.dtype = KvDType::kE4M3;
  snapshot.kv_cache.scale_pack_id = "pack \"1\"";
  snapshot.kv_cache.pages = 6;
  snapshot.kv_cache.layers = {
      {.layer = 3, .k_scale = 0.25F, .v_scale = 0.5F, .saturated_k = 9, .flushed_v = 8},
      {.layer = 12, .draft = true, .k_scale = 2, .v_scale = 4, .saturated_v = 1}};
  return snapshot;
}

std::string TextOf(const EngineSnapshot& snapshot) {
  return StateJson({.snapshot = snapshot,
                    .model = {.max_model_len = 4096},
                    .model_name = "tiny",
                    .version = "1.2",
                    .now = steady_clock::time_point(seconds(200))});
}

Json StateOf(const EngineSnapshot& snapshot) {
  return Json::parse(TextOf(snapshot));
}

TEST(PageState, HasCountersScalesAndAcceptance) {
  const Json state = StateOf(SomeSnapshot());
  EXPECT_EQ(state["model"], "tiny");
  EXPECT_EQ(state["max_model_len"], 4096);
  EXPECT_EQ(state["requests"]["running"], 2);
  EXPECT_EQ(state["tokens"]["generated"], 7);
  EXPECT_EQ(state["speculation"]["accepted_at"], Json({2, 1}));
  EXPECT_EQ(state["kv_cache"]["dtype"], "fp8_e4m3");
  EXPECT_EQ(state["kv_cache"]["scale_pack"], "pack \"1\"");
  const Json& layers = state["kv_cache"]["layers"];
  EXPECT_EQ(layers[0]["k_scale"], 0.25);
  EXPECT_EQ(layers[0]["saturated_k"], 9);
  EXPECT_EQ(layers[0]["flushed_v"], 8);
  EXPECT_EQ(state["kv_cache"]["weights"], "none");
  EXPECT_EQ(state["kv_cache"]["accepted_lineage"], Json::array());
  EXPECT_EQ(layers[1]["draft"], true);
  EXPECT_EQ(layers[1]["v_scale"], 4);
}

TEST(PageState, WithoutE4M3ThereAreNoScales) {
  EngineSnapshot snapshot = SomeSnapshot();
  snapshot.kv_cache.dtype = KvDType::kFp16;
  const Json state = StateOf(snapshot);
  EXPECT_TRUE(state["kv_cache"]["scale_pack"].is_null());
  EXPECT_TRUE(state["kv_cache"]["layers"][0]["k_scale"].is_null());
}

TEST(PageState, TimeIsThatOfTheFigures) {
  EngineSnapshot snapshot = SomeSnapshot();
  EXPECT_EQ(StateOf(snapshot)["time"], 100);
  snapshot.statistics.running = 0;  // what was true when it went idle is true now
  EXPECT_EQ(StateOf(snapshot)["time"], 200);
}

TEST(PageState, TellsTheHoldersOfEveryPageInRuns) {
  EngineSnapshot snapshot = SomeSnapshot();
  EXPECT_TRUE(StateOf(snapshot)["pool"].is_null());

  const KvPageInfo free;
  const KvPageInfo own{.holders = 1, .requests = {RequestId{5}}};
  const KvPageInfo shared{.holders = 3, .cached = true, .requests = {RequestId{5}, RequestId{8}}};
  snapshot.pool = std::vector<KvPageInfo>{shared, shared, own, free, free, shared};
  const Json pool = StateOf(snapshot)["pool"];
  EXPECT_EQ(pool["runs"], Json({0, 2, 1, 1, 2, 2, 0, 1}));
  ASSERT_EQ(pool["holders"].size(), 3U);
  EXPECT_EQ(pool["holders"][0]["requests"], Json({5, 8}));
  EXPECT_EQ(pool["holders"][0]["cached"], true);
  EXPECT_EQ(pool["holders"][0]["count"], 3);
  EXPECT_EQ(pool["holders"][1]["cached"], false);
  EXPECT_EQ(pool["holders"][2]["count"], 0);

  snapshot.pool->clear();
  EXPECT_EQ(StateOf(snapshot)["pool"]["runs"], Json::array());
}

TEST(Page, PolicyNamesTheHashesOfItsOwnParts) {
  // printf alert | openssl dgst -sha256 -binary | base64, and the same of "a{}".
  const std::string policy = PagePolicy("<style>a{}</style><script>alert</script>");
  EXPECT_THAT(policy,
              HasSubstr("script-src 'sha256-35BQWN1npAn++BSA6B5HNlcrDttNf7mHxpXNB+Jg7IE=';"));
  EXPECT_THAT(policy,
              HasSubstr("style-src 'sha256-X1RutGBrXCt9KkSaXMK7tHftWiRscFHOhxsS8tv8hBk=';"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
}

TEST(Page, AsksNothingOfOthers) {
  for (const char* mark : {"http:", "https:", "url(", "@import", "src=", " style=", "innerHTML",
                           "localStorage", "eval("}) {
    EXPECT_THAT(std::string(kPageText), Not(HasSubstr(mark)));
  }
  EXPECT_THAT(std::string(kPageText), HasSubstr("</html>"));
}

}  // namespace
}  // namespace kv8
