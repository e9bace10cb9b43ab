#include "proof/verdicts.h"

#include <gtest/gtest.h>

namespace kv8 {
namespace {

using Outcome = Verdict::Outcome;

std::vector<RightPair> Pairs(int both, int lost, int gained) {
  std::vector<RightPair> pairs(static_cast<std::size_t>(both), {.a = true, .b = true});
  pairs.insert(pairs.end(), static_cast<std::size_t>(lost), {.a = true, .b = false});
  pairs.insert(pairs.end(), static_cast<std::size_t>(gained), {.a = false, .b = true});
  return pairs;
}

TEST(Verdicts, OfRightAnswersFollowTheDiscordantPairs) {
  EXPECT_EQ(JudgeRight("r", "", Pairs(20, 6, 0)).outcome, Outcome::kWorse);
  EXPECT_EQ(JudgeRight("r", "", Pairs(20, 0, 6)).outcome, Outcome::kBetter);
  EXPECT_EQ(JudgeRight("r", "", Pairs(20, 5, 0)).outcome, Outcome::kNotShown);
  EXPECT_DOUBLE_EQ(JudgeRight("r", "", Pairs(20, 5, 0)).difference, -0.2);
}

TEST(Verdicts, Verify7_FewPairsShowNothingAndThatIsNotCalledEqual) {
  const Verdict verdict = JudgeRight("r", "", Pairs(5, 0, 0));
  EXPECT_EQ(verdict.outcome, Outcome::kTooFewPairs);
  Figures figures;
  AddFigures(verdict, figures);
  EXPECT_FALSE(figures.contains("r.worse"));
  for (const Outcome outcome :
       {Outcome::kWorse, Outcome::kBetter, Outcome::kNotShown, Outcome::kTooFewPairs}) {
    EXPECT_EQ(OutcomeText(outcome).find("equal"), std::string::npos);
    EXPECT_EQ(OutcomeText(outcome).find("same"), std::string::npos);
  }
}

TEST(Verdicts, Verify7_ATaskThatANeverSolvesShowsNothing) {
  const std::vector<RightPair> wrong(100);
  EXPECT_EQ(JudgeRight("r", "", wrong).outcome, Outcome::kTooFewPairs);
  EXPECT_EQ(JudgeRight("r", "", Pairs(0, 0, 6)).outcome, Outcome::kBetter);
}

TEST(Verdicts, OfRatiosKnowWhichSideIsBetter) {
  std::vector<RatioPair> pairs;
  for (int i = 0; i < 50; ++i) {
    pairs.push_back({.a = 1, .a_count = 1, .b = 1.5 + 0.01 * i, .b_count = 1});
  }
  EXPECT_EQ(JudgeRatio("n", "", pairs, /*higher_is_better=*/false, 1).outcome, Outcome::kWorse);
  EXPECT_EQ(JudgeRatio("n", "", pairs, /*higher_is_better=*/true, 1).outcome, Outcome::kBetter);
  EXPECT_NEAR(JudgeRatio("n", "", pairs, false, 1).difference, 0.745, 1e-9);
}

TEST(Verdicts, WithoutSpreadNoSmallestEffectIsTold) {
  const std::vector<RatioPair> alike(9, {.a = 1, .a_count = 1, .b = 1, .b_count = 1});
  const Verdict verdict = JudgeRatio("n", "", alike, false, 1);
  EXPECT_EQ(verdict.outcome, Outcome::kNotShown);
  EXPECT_FALSE(verdict.smallest_effect.has_value());
}

}  // namespace
}  // namespace kv8
