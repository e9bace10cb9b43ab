// The E2M1 codec over every code and around every boundary.
#include "numeric/e2m1.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kv8 {
namespace {

constexpr float kBeyond = std::numeric_limits<float>::infinity();

/// Value of a code from the format's definition.
float E2M1Value(int code) {
  const int exponent = (code >> 1) & 3, mantissa = code & 1;
  const float magnitude = exponent == 0
                              ? static_cast<float>(mantissa) / 2
                              : std::ldexp(static_cast<float>(2 + mantissa), exponent - 2);
  return code & 8 ? -magnitude : magnitude;
}

/// Nearest code of a number by search; ties to the even code; saturating.
int NearestE2M1(float x) {
  const float magnitude = std::min(std::fabs(x), kE2M1Max);
  int best = 0;
  for (int code = 1; code <= kE2M1MaxCode; ++code) {
    const float better =
        std::fabs(magnitude - E2M1Value(best)) - std::fabs(magnitude - E2M1Value(code));
    if (better > 0 || (better == 0 && code % 2 == 0)) best = code;
  }
  return (std::signbit(x) ? 8 : 0) | best;
}

TEST(E2M1, EveryCodeHasItsValueAndRoundTrips) {
  for (int code = 0; code < 16; ++code) {
    const float value = DecodeE2M1(static_cast<std::uint8_t>(code));
    EXPECT_EQ(value, E2M1Value(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 8) << code;
    EXPECT_EQ(int{EncodeE2M1(value)}, code);
    EXPECT_EQ(DecodeE2M1(static_cast<std::uint8_t>(0xF0 | code)), value);
  }
}

TEST(E2M1, RoundsToNearestEvenAroundEveryMidpoint) {
  for (int code = 0; code < kE2M1MaxCode; ++code) {
    const float low = E2M1Value(code), high = E2M1Value(code + 1);
    for (const float exact : {low, (low + high) / 2, high}) {
      for (const float x :
           {exact, std::nextafter(exact, kBeyond), std::nextafter(exact, -kBeyond)}) {
        EXPECT_EQ(int{EncodeE2M1(x)}, NearestE2M1(x)) << x;
        EXPECT_EQ(int{EncodeE2M1(-x)}, NearestE2M1(-x)) << -x;
      }
    }
  }
}

TEST(E2M1, SaturatesFrom6Up) {
  for (const float x : {6.0f, 6.5f, 7.0f, 8.0f, 1e9f, std::numeric_limits<float>::max(), kBeyond}) {
    EXPECT_EQ(int{EncodeE2M1(x)}, 7) << x;
    EXPECT_EQ(int{EncodeE2M1(-x)}, 15) << x;
  }
}

/// There is no code for it.
TEST(E2M1, NaNGivesTheLargestValueOfItsSign) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(int{EncodeE2M1(nan)}, 7);
  EXPECT_EQ(int{EncodeE2M1(std::copysign(nan, -1.0f))}, 15);
}

}  // namespace
}  // namespace kv8
