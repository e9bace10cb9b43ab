#include "proof/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace kv8 {
namespace {

using testing::HasSubstr;

Result<std::vector<Gate>> Parsed(std::string_view text) {
  const auto json = ParseJson(text, "gates.json");
  if (!json.ok()) return json.error();
  return ParseGates(*json, "gates.json");
}

TEST(Gates, TheShippedOnesAreGates) {
  const auto gates = Parsed(DefaultGatesText());
  ASSERT_TRUE(gates.ok()) << gates.error().ToString();
  EXPECT_EQ(gates->front().figure, "noise.scores_different");
}

TEST(Gates, Verify8_AMissingFigureFailsUnlessTheGateAllowsIt) {
  const auto gates = Parsed(R"({"gates": [
      {"name": "strict", "figure": "x", "at_most": 1},
      {"name": "lenient", "figure": "x", "at_most": 1, "if_measured": true}]})");
  ASSERT_TRUE(gates.ok());
  const auto missing = CheckGates(*gates, {});
  EXPECT_FALSE(missing[0].passed);
  EXPECT_TRUE(missing[1].passed);
  const auto high = CheckGates(*gates, {{"x", 1.5}});
  EXPECT_FALSE(high[0].passed);
  EXPECT_FALSE(high[1].passed);
}

TEST(Gates, Verify8_LimitsIncludeThemselvesAndNaNPassesNone) {
  const auto gates =
      Parsed(R"({"gates": [{"name": "n", "figure": "x", "at_least": -0.05, "at_most": 1}]})");
  ASSERT_TRUE(gates.ok());
  const auto passes = [&](double value) { return CheckGates(*gates, {{"x", value}})[0].passed; };
  EXPECT_TRUE(passes(-0.05));
  EXPECT_TRUE(passes(1));
  EXPECT_FALSE(passes(-0.06));
  EXPECT_FALSE(passes(std::nan("")));
}

TEST(Gates, Verify11_MalformedFilesAreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([])", "object"},
      {R"({"gates": []})", "gates"},
      {R"({"gates": [], "x": 1})", "\"x\""},
      {R"({"gates": [{"name": "n", "figure": "x"}]})", "at_most"},
      {R"({"gates": [{"name": "n", "figure": "x", "atmost": 1}]})", "gates[0].atmost"},
      {R"({"gates": [{"name": 1, "figure": "x", "at_most": 1}]})", "gates[0].name"},
      {R"({"gates": [{"name": "n", "figure": "x", "at_most": "1"}]})", "gates[0].at_most"},
      {R"({"gates": [{"name": "n", "figure": "x", "at_most": 1},
                     {"name": "n", "figure": "y", "at_most": 1}]})",
       "gates[1].name"}};
  for (const auto& [text, named] : cases) {
    const auto gates = Parsed(text);
    ASSERT_FALSE(gates.ok()) << text;
    EXPECT_EQ(gates.error().code, Code::kCorrupt);
    EXPECT_THAT(gates.error().ToString(), HasSubstr(named));
  }
}

}  // namespace
}  // namespace kv8
