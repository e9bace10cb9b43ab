// The E4M3 codec over every code and around every boundary.
#include "numeric/e4m3.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "numeric/half.h"

namespace kv8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Value of a code from the format's definition, in double.
double ValueOf(int code) {
  const int exponent = (code >> 3) & 0xF, mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

/// Nearest code of a number by search; ties to the even code; saturating.
std::uint8_t NearestCode(float x) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  const double magnitude = std::abs(static_cast<double>(x));
  int best = 0;
  for (int code = 1; code <= kE4M3MaxCode; ++code) {
    const double better = std::abs(magnitude - ValueOf(best)) - std::abs(magnitude - ValueOf(code));
    if (better > 0 || (better == 0 && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(sign | (std::isinf(x) ? int{kE4M3MaxCode} : best));
}

void ExpectNearest(float x) {
  for (const float value : {x, -x}) {
    EXPECT_EQ(int{EncodeE4M3(value)}, int{NearestCode(value)}) << value;
  }
}

TEST(E4M3, EveryCodeHasItsValueAndRoundTrips) {
  for (int code = 0; code < 256; ++code) {
    const float value = DecodeE4M3(static_cast<std::uint8_t>(code));
    if ((code & 0x7F) == kE4M3NaNCode) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 0x7FC00000u);
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), ValueOf(code)) << code;
    EXPECT_EQ(std::signbit(value), (code & 0x80) != 0) << code;
    EXPECT_EQ(int{EncodeE4M3(value)}, code);
  }
}

/// The second exact form: an FP16 bit pattern, times 256.
TEST(E4M3, DecodingThroughFp16IsTheSame) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7F) == kE4M3NaNCode) continue;
    const auto half = static_cast<std::uint16_t>((code & 0x80) << 8 | (code & 0x7F) << 7);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(DecodeFp16(half) * 256.0f),
              std::bit_cast<std::uint32_t>(DecodeE4M3(static_cast<std::uint8_t>(code))))
        << code;
  }
}

TEST(E4M3, RoundsToNearestEvenAroundEveryMidpoint) {
  for (int code = 0; code < kE4M3MaxCode; ++code) {
    const auto low = static_cast<float>(ValueOf(code)),
               high = static_cast<float>(ValueOf(code + 1));
    const float middle = (low + high) / 2;  // exact: one more mantissa bit
    for (const float x : {low, middle, high}) {
      ExpectNearest(x);
      ExpectNearest(std::nextafter(x, kInf));
      ExpectNearest(std::nextafter(x, -kInf));
    }
  }
}

TEST(E4M3, SaturatesFrom448Up) {
  for (const float x : {448.0f, std::nextafter(448.0f, kInf), 463.9f, 464.0f, 465.0f, 480.0f, 1e9f,
                        std::numeric_limits<float>::max(), kInf}) {
    EXPECT_EQ(int{EncodeE4M3(x)}, 0x7E) << x;
    EXPECT_EQ(int{EncodeE4M3(-x)}, 0xFE) << x;
  }
}

TEST(E4M3, NaNKeepsItsSign) {
  for (const std::uint32_t bits : {0x7FC00000u, 0x7F800001u, 0x7FFFFFFFu}) {
    EXPECT_EQ(int{EncodeE4M3(std::bit_cast<float>(bits))}, 0x7F);
    EXPECT_EQ(int{EncodeE4M3(std::bit_cast<float>(bits | 0x80000000u))}, 0xFF);
  }
}

TEST(E4M3, TinyValuesGiveSignedZeros) {
  for (const float x : {0.0f, 0x1p-149f, 0x1p-126f, 0x1p-11f, 0x1p-10f}) {  // 2^-10 ties to 0
    EXPECT_EQ(int{EncodeE4M3(x)}, 0x00) << x;
    EXPECT_EQ(int{EncodeE4M3(-x)}, 0x80) << x;
  }
  EXPECT_EQ(int{EncodeE4M3(std::nextafter(0x1p-10f, 1.0f))}, 1);
}

/// Multiplying by a rounded reciprocal would miss ties that the FP32 quotient hits.
TEST(E4M3, StoreRuleDividesInFp32) {
  int differences = 0;
  for (int i = 1; i < 200; ++i) {
    const float scale = static_cast<float>(i) / 1000;
    for (int code = 1; code < kE4M3MaxCode; ++code) {
      const float x = static_cast<float>((ValueOf(code) + ValueOf(code + 1)) / 2) * scale;
      EXPECT_EQ(int{QuantizeE4M3(x, scale)}, int{NearestCode(x / scale)});
      differences += QuantizeE4M3(x, scale) != EncodeE4M3(x * (1.0f / scale));
    }
  }
  EXPECT_GT(differences, 0);  // or this test could not tell the two apart
}

TEST(E4M3, SaturationIsBeyond448Scales) {
  EXPECT_FALSE(SaturatesE4M3(224.0f, 0.5f));
  EXPECT_TRUE(SaturatesE4M3(std::nextafter(224.0f, kInf), 0.5f));
  EXPECT_TRUE(SaturatesE4M3(-kInf, 0.5f));
  EXPECT_FALSE(SaturatesE4M3(std::numeric_limits<float>::quiet_NaN(), 0.5f));
}

}  // namespace
}  // namespace kv8
