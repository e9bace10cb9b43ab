#include "speed/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "speed/comparability.h"
#include "speed/spread.h"

namespace kv8 {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kEvil = "<script>alert('1')</script>\"&";

Json Facts(const char* route) {
  return {{kRoutesFact, {{"gdn", route}}},
          {kPartitionFact, Json::object()},
          {kAcceptanceFact, Json::object()}};
}

/// Two arms, one cell whose B is twice as fast in decode, one that was skipped.
BenchResults Results(const char* route_of_b) {
  BenchResults results;
  results.arms = {{Facts("simd"), {{"kv", 5}}}, {Facts(route_of_b), {{"kv", 3}}}};
  results.prompts = kEvil;
  const CellTimes a{.prefill_tokens_per_second = 10, .decode_tokens_per_second = 4};
  const CellTimes b{.prefill_tokens_per_second = 10, .decode_tokens_per_second = 8};
  results.cells = {{{.context = 64, .sequences = 2, .output = 8}, {{a, a, a}, {b, b, b}}}};
  results.skipped = {{{.context = 9, .sequences = 1, .output = 8}, kEvil}};
  return results;
}

BenchOptions Options() {
  BenchOptions options;
  options.engine.model = kEvil;
  options.b = ArmSpec{.dtype = KvDType::kE4M3, .scale_pack = {}};
  return options;
}

TEST(BenchReport, Bench2_SpreadsHaveEveryValueInItsOrder) {
  const Json spread = SpreadJson({3, 1, 2, 9});
  EXPECT_EQ(spread["median"], 2.5);
  EXPECT_EQ(spread["low"], 1);
  EXPECT_EQ(spread["high"], 9);
  EXPECT_EQ(spread["values"], Json({3, 1, 2, 9}));
  EXPECT_TRUE(SpreadJson({}).is_null());
  EXPECT_EQ(Median({7}), 7);
}

TEST(BenchReport, Bench4_RatiosStandOnlyBetweenWhatCanBeCompared) {
  const Json same = BenchReport(Options(), Results("simd"));
  EXPECT_EQ(same["comparable"], true);
  EXPECT_EQ(same["cells"][0]["decode_b_over_a"]["median"], 2);
  const Json other = BenchReport(Options(), Results("reference"));
  EXPECT_EQ(other["comparable"], false);
  EXPECT_EQ(other["differences"], Json({"routes.gdn: simd and reference"}));
  EXPECT_FALSE(other["cells"][0].contains("decode_b_over_a"));
  EXPECT_THAT(BenchText(other), HasSubstr("not comparable: routes.gdn"));
}

TEST(BenchReport, Bench7_NoTextBecomesMarkup) {
  const std::string page = BenchHtml(BenchReport(Options(), Results("simd")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  for (const char* outside : {"src=", "href=", "https://", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

}  // namespace
}  // namespace kv8
