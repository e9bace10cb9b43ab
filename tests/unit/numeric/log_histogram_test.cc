#include "numeric/log_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace kv8 {
namespace {

/// The definition, in double: floor((log2 x + 24) / 40 * 4096), clamped.
std::uint32_t Definition(float x) {
  const double bin = std::floor((std::log2(static_cast<double>(x)) + 24.0) / 40.0 * 4096.0);
  return static_cast<std::uint32_t>(std::min(std::max(bin, 0.0), 4095.0));
}

std::uint32_t Fast(float x) {
  return Log2Bins::Get().BinOf(std::bit_cast<std::uint32_t>(x));
}

TEST(Log2Bins, EqualsTheDefinitionAroundEveryEdge) {
  for (int bin = 0; bin < LogHistogram::kBins; ++bin) {
    const auto edge = static_cast<float>(LogHistogram::UpperEdge(bin));
    auto bits = std::bit_cast<std::uint32_t>(edge) - 4;
    for (int i = 0; i < 9; ++i, ++bits) {
      const auto x = std::bit_cast<float>(bits);
      ASSERT_EQ(Fast(x), Definition(x)) << "bin " << bin << ", " << x;
    }
  }
}

TEST(Log2Bins, EqualsTheDefinitionOnRandomFloats) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::uint32_t> bits(1, 0x7F7FFFFF);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto x = std::bit_cast<float>(bits(random));
    ASSERT_EQ(Fast(x), Definition(x)) << x;
  }
}

TEST(Log2Bins, EqualsTheDefinitionAtPowersOfTwoAndEnds) {
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const float x = std::ldexp(1.0f, exponent);
    EXPECT_EQ(Fast(x), Definition(x)) << exponent;
  }
  EXPECT_EQ(Fast(std::numeric_limits<float>::denorm_min()), 0u);
  EXPECT_EQ(Fast(std::numeric_limits<float>::max()), 4095u);
  EXPECT_EQ(Fast(std::nextafterf(65536.0f, 0.0f)), 4095u);
}

}  // namespace
}  // namespace kv8
