// The weights of tokens: as good as an exact exponential, and in order.
#include "base/token_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace kv8 {
namespace {

TEST(TokenChoice, WeightsAreAnExponentialAndNeverGrow) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::uint32_t> any(0, kFarthest - 1);
  EXPECT_EQ(TokenWeight(0), std::uint64_t{1} << kLargestWeightBits);
  EXPECT_GE(TokenWeight(kFarthest - 1), 1u);
  EXPECT_EQ(TokenWeight(kFarthest), 0u);
  for (int i = 0; i < 200'000; ++i) {
    // Every octave's end among them.
    const std::uint32_t distance =
        i < kOctaves ? ((static_cast<std::uint32_t>(i) + 1) << kDistanceBits) - 1 : any(random);
    const double exact = std::ldexp(std::exp2(-std::ldexp(distance, -kDistanceBits)), 39);
    ASSERT_NEAR(static_cast<double>(TokenWeight(distance)), exact, 4e-9 * exact + 1) << distance;
    ASSERT_GE(TokenWeight(distance), TokenWeight(distance + 1)) << distance;
  }
}

TEST(TokenChoice, DistancesAreOctavesAndWhatHasNoneIsFarthest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kScale = 1 << kDistanceBits;  // one octave per unit
  EXPECT_EQ(TokenDistance(3, 3, kScale), 0u);
  EXPECT_EQ(TokenDistance(3, 1.5f, kScale), 3u << (kDistanceBits - 1));
  EXPECT_EQ(TokenDistance(3, 3 - 38.5f, kScale), 77u << (kDistanceBits - 1));
  EXPECT_EQ(TokenDistance(3, 3 - 39.0f, kScale), kFarthest);
  EXPECT_EQ(TokenDistance(3e38f, -3e38f, kScale), kFarthest);
  EXPECT_EQ(TokenDistance(3, -kInfinity, kScale), kFarthest);
  EXPECT_EQ(TokenDistance(3, std::nanf(""), kScale), kFarthest);
  EXPECT_EQ(TokenDistance(3, 3, std::numeric_limits<float>::max()), 0u);
}

TEST(TokenChoice, SharesAreUpperHalvesOfProducts) {
  __extension__ using Wide = unsigned __int128;
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t whole = random() >> (random() % 64), fraction = random() >> (random() % 64);
    ASSERT_EQ(ShareOf(whole, fraction), static_cast<std::uint64_t>((Wide{whole} * fraction) >> 64));
  }
  EXPECT_EQ(ShareOf(~std::uint64_t{0}, ~std::uint64_t{0}), ~std::uint64_t{0} - 1);
  EXPECT_EQ(WeightToReach(10, 0), 10u);
  EXPECT_EQ(WeightToReach(10, 1), 1u);
  EXPECT_EQ(WeightToReach(10, std::uint64_t{1} << 63), 5u);
}

}  // namespace
}  // namespace kv8
