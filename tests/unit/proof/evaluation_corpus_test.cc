#include "proof/evaluation_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "proof/divergence.h"
#include "proof/overlap.h"

namespace kv8 {
namespace {

using testing::HasSubstr;

TEST(EvaluationLine, HasAnswersBesideTexts) {
  const auto line = ParseEvaluationLine(
      R"({"text": "q", "category": "needle", "answer": " 1", "depth": 0.5, "id": "x"})", "f:1");
  ASSERT_TRUE(line.ok()) << line.error().ToString();
  EXPECT_EQ(line->answer, " 1");
  EXPECT_EQ(line->depth, 0.5);
  EXPECT_FALSE(line->tool.has_value());
}

TEST(EvaluationLine, Verify11_BadFieldsAreRefusedByNameAndPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"text": "q", "answer": 1})", "answer"},
      {R"({"text": "q", "answer": ""})", "answer"},
      {R"({"text": "q", "answer": "a", "tool": []})", "tool"},
      {R"({"text": "q", "answer": "a", "depth": 1.5})", "depth"},
      {R"({"text": "q", "answer": "a", "depth": true})", "depth"},
      {R"({"text": "q", "depth": 0.5})", "without"},
      {R"({"answer": "a"})", "text"}};
  for (const auto& [text, named] : cases) {
    const auto line = ParseEvaluationLine(text, "f:7");
    ASSERT_FALSE(line.ok()) << text;
    EXPECT_EQ(line.error().where, "f:7");
    EXPECT_THAT(line.error().what, HasSubstr(named));
  }
}

std::vector<std::uint64_t> Shingles(const std::vector<TokenId>& ids) {
  std::vector<std::uint64_t> hashes;
  ForEachShingle(ids, [&](std::uint64_t hash) { hashes.push_back(hash); });
  return hashes;
}

TEST(Shingles, AreTheSameWhereverTheyStand) {
  std::vector<TokenId> one(64);
  for (int i = 0; i < 64; ++i) one[i] = 100 + i * i;
  std::vector<TokenId> shifted = {1, 2, 3};
  shifted.insert(shifted.end(), one.begin(), one.end());
  shifted.push_back(9);
  const auto inside = Shingles(shifted);
  ASSERT_EQ(inside.size(), 5u);
  EXPECT_EQ(inside[3], Shingles(one)[0]);
  EXPECT_EQ(std::count(inside.begin(), inside.end(), inside[3]), 1);
}

TEST(Shingles, OfAShortDocumentAreThatDocument) {
  EXPECT_EQ(Shingles({1, 2, 3}).size(), 1u);
  EXPECT_NE(Shingles({1, 2, 3}), Shingles({1, 2}));
  EXPECT_NE(Shingles({1, 2, 3}), Shingles({3, 2, 1}));
}

TEST(Divergence, IsTheSumOverSharedTokensAndTheRest) {
  // A = (0.5, 0.25, rest 0.25), B = (0.25, 0.5, rest 0.25): 0.25 ln 2.
  const float half = std::log(0.5F);
  const float quarter = std::log(0.25F);
  EXPECT_NEAR(KlLowerBound({{1, half}, {2, quarter}}, {{2, half}, {1, quarter}}),
              0.25 * std::log(2.0), 1e-6);
  EXPECT_EQ(KlLowerBound({{1, half}, {2, quarter}}, {{1, half}, {2, quarter}}), 0);
}

TEST(Divergence, IsFiniteWhereTheListsShareNothing) {
  EXPECT_EQ(KlLowerBound({{1, std::log(0.9F)}}, {{2, std::log(0.9F)}}), 0);
}

}  // namespace
}  // namespace kv8
