#include "proof/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace kv8 {
namespace {

// Constants by exact fractions in Python: 2 * sum of C(n, k) / 2^n, and the root of the binomial
// tail in doubles of math.comb.
TEST(Statistics, Verify5_McNemarIsTheExactBinomialTest) {
  EXPECT_EQ(McNemarP(0, 0), 1);
  EXPECT_NEAR(McNemarP(6, 0), 0.03125, 1e-12);
  EXPECT_NEAR(McNemarP(0, 5), 0.0625, 1e-12);
  EXPECT_NEAR(McNemarP(1, 9), 0.021484375, 1e-12);
  EXPECT_NEAR(McNemarP(12, 3), 0.03515625, 1e-12);
  EXPECT_NEAR(McNemarP(40, 60), 0.05688793364098079, 1e-10);
  EXPECT_EQ(McNemarP(7, 7), 1);
}

TEST(Statistics, Verify7_SmallestLossIsWhatFourOfFiveRunsWouldShow) {
  EXPECT_FALSE(SmallestLossShare(5).has_value());
  EXPECT_NEAR(SmallestLossShare(6).value(), 0.9634924839989961, 1e-9);
  EXPECT_NEAR(SmallestLossShare(27).value(), 0.2770228229952477, 1e-9);
  EXPECT_NEAR(SmallestLossShare(100).value(), 0.07791107495026067, 1e-9);
  EXPECT_NEAR(SmallestLossShare(1000).value(), 0.007894505774991569, 1e-9);
}

/// 400 items of one token each whose costs differ by 0 and 1 in turn: mean 0.5, standard error of
/// the mean 0.5 / sqrt(400) = 0.025.
std::vector<RatioPair> Alternating() {
  std::vector<RatioPair> pairs;
  for (int i = 0; i < 400; ++i)
    pairs.push_back({.a = 2, .a_count = 1, .b = 2.0 + i % 2, .b_count = 1});
  return pairs;
}

TEST(Statistics, Verify6_BootstrapFindsTheStandardErrorOfAMean) {
  const auto result = PairedBootstrap(Alternating(), 1);
  ASSERT_TRUE(result.has_value());
  EXPECT_NEAR(result->difference, 0.5, 1e-12);
  EXPECT_NEAR(result->low, 0.5 - 1.95996 * 0.025, 0.004);
  EXPECT_NEAR(result->high, 0.5 + 1.95996 * 0.025, 0.004);
  EXPECT_NEAR(result->smallest_effect, 2.80158 * 0.025, 0.003);
}

TEST(Statistics, Verify6_BootstrapRepeatsItselfWithTheSameSeed) {
  const auto first = PairedBootstrap(Alternating(), 7);
  const auto second = PairedBootstrap(Alternating(), 7);
  const auto other = PairedBootstrap(Alternating(), 8);
  EXPECT_EQ(first->low, second->low);
  EXPECT_EQ(first->smallest_effect, second->smallest_effect);
  EXPECT_NE(first->smallest_effect, other->smallest_effect);
}

TEST(Statistics, BootstrapDividesSumsNotRatios) {
  std::vector<RatioPair> pairs(6, {.a = 0, .a_count = 1, .b = 1, .b_count = 1});
  pairs.push_back({.a = 0, .a_count = 94, .b = 0, .b_count = 94});
  EXPECT_NEAR(PairedBootstrap(pairs, 1)->difference, 0.06, 1e-12);
}

TEST(Statistics, Verify7_TooFewItemsGiveNoInterval) {
  const std::vector<RatioPair> five(5, {.a = 1, .a_count = 1, .b = 2, .b_count = 1});
  EXPECT_FALSE(PairedBootstrap(five, 1).has_value());
  const std::vector<RatioPair> empty(9, {.a = 0, .a_count = 0, .b = 2, .b_count = 1});
  EXPECT_FALSE(PairedBootstrap(empty, 1).has_value());
}

}  // namespace
}  // namespace kv8
