#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "numeric/e4m3.h"
#include "scalepack/calibration_report.h"

namespace kv8 {
namespace {

bool Covers(float scale, float max_abs) {
  return 448.0L * static_cast<long double>(scale) >= static_cast<long double>(max_abs);
}

TEST(ScaleForMaxAbs, ReproducesPublishedScalesBitForBit) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(ScaleForMaxAbs(7.671875f)), 0x3c8c4925u);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(ScaleForMaxAbs(37.6875f)), 0x3dac4925u);
}

TEST(ScaleForMaxAbs, IsTheSmallestThatCovers) {
  std::mt19937 random(7);
  std::uniform_int_distribution<std::uint32_t> bits(1, 0x7F7FFFFFu);  // every positive finite float
  for (int i = 0; i < 200'000; ++i) {
    const auto max_abs = std::bit_cast<float>(bits(random));
    const float scale = ScaleForMaxAbs(max_abs);
    ASSERT_TRUE(Covers(scale, max_abs)) << max_abs;
    ASSERT_FALSE(Covers(std::nextafterf(scale, 0.0f), max_abs)) << max_abs;
    ASSERT_FALSE(SaturatesE4M3(max_abs, scale)) << max_abs;
  }
}

TEST(ScaleForMaxAbs, HandlesTheEndsOfTheRange) {
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ScaleForMaxAbs(kTiny), kTiny);
  const float largest = ScaleForMaxAbs(std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(largest));
  EXPECT_TRUE(Covers(largest, std::numeric_limits<float>::max()));
}

TEST(ScaleForMaxAbs, NeverGivesTheUnitScale) {
  EXPECT_EQ(ScaleForMaxAbs(448.0f), std::nextafterf(1.0f, 2.0f));
  EXPECT_LT(ScaleForMaxAbs(std::nextafterf(448.0f, 0.0f)), 1.00001f);
  EXPECT_NE(ScaleForMaxAbs(std::nextafterf(448.0f, 0.0f)), 1.0f);
}

TEST(LogHistogram, BinsHalfOpenIntervalsAndClampsTheRest) {
  EXPECT_EQ(LogHistogram::BinOf(0x1p-24), 0);
  EXPECT_EQ(LogHistogram::BinOf(0x1p-30), 0);
  EXPECT_EQ(LogHistogram::BinOf(1.0), 24 * 4096 / 40);
  EXPECT_EQ(LogHistogram::BinOf(0x1p16), 4095);
  EXPECT_EQ(LogHistogram::BinOf(0x1p100), 4095);
  EXPECT_EQ(LogHistogram::UpperEdge(4095), 0x1p16);
  for (const double x : {0.001, 0.5, 1.0, 3.7, 60000.0}) {
    EXPECT_LT(x, LogHistogram::UpperEdge(LogHistogram::BinOf(x)));
    EXPECT_GE(x, LogHistogram::UpperEdge(LogHistogram::BinOf(x) - 1) * (1 - 1e-12));
  }
}

TEST(PercentileUpperBound, CountsZerosFirst) {
  SideStatistics side;
  side.finite_count = 1000;
  side.nonzero_count = 2;  // 998 zeros
  side.histogram.bins[100] = 1;
  side.histogram.bins[200] = 1;
  EXPECT_EQ(PercentileUpperBound(side, 0.998), 0);
  EXPECT_EQ(PercentileUpperBound(side, 0.999), LogHistogram::UpperEdge(100));
  EXPECT_EQ(PercentileUpperBound(side, 0.9999), LogHistogram::UpperEdge(200));
  EXPECT_EQ(PercentileUpperBound(SideStatistics(), 0.999), 0);
}

}  // namespace
}  // namespace kv8
