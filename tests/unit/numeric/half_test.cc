// FP16 and BF16 over every code, every midpoint between neighbours, and every special value.
#include "numeric/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace kv8 {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Format {
  const char* name;
  int mantissa_bits, exponent_bits;
  float (*decode)(std::uint16_t);
  std::uint16_t (*encode)(float);

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int infinity() const { return ((1 << exponent_bits) - 1) << mantissa_bits; }
  /// Value of a positive finite code from the format's definition.
  double ValueOf(int code) const {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias() - mantissa_bits);
  }
};

class HalfTest : public testing::TestWithParam<Format> {};

TEST_P(HalfTest, EveryFiniteCodeHasItsValueAndRoundTrips) {
  const Format& format = GetParam();
  for (int code = 0; code < format.infinity(); ++code) {
    for (const int sign : {0, 0x8000}) {
      const auto stored = static_cast<std::uint16_t>(sign | code);
      const float value = format.decode(stored);
      ASSERT_EQ(static_cast<double>(value), (sign ? -1 : 1) * format.ValueOf(code)) << stored;
      ASSERT_EQ(std::signbit(value), sign != 0) << stored;
      ASSERT_EQ(format.encode(value), stored);
    }
  }
}

TEST_P(HalfTest, RoundsToNearestEvenAroundEveryMidpoint) {
  const Format& format = GetParam();
  for (int code = 0; code < format.infinity(); ++code) {
    // The code after the largest is infinity; its place in the sequence counts for rounding.
    const double middle = (format.ValueOf(code) + format.ValueOf(code + 1)) / 2;
    const auto x = static_cast<float>(middle);
    if (static_cast<double>(x) != middle) continue;  // between BF16 subnormals: below FP32's own
    const int even = code % 2 == 0 ? code : code + 1;
    ASSERT_EQ(int{format.encode(x)}, even) << code;
    ASSERT_EQ(int{format.encode(-x)}, even | 0x8000) << code;
    ASSERT_EQ(int{format.encode(std::nextafter(x, 0.0f))}, code);
    ASSERT_EQ(int{format.encode(std::nextafter(x, kInfinity))}, code + 1);
  }
}

TEST_P(HalfTest, InfinityAndOverflow) {
  const Format& format = GetParam();
  EXPECT_EQ(format.decode(static_cast<std::uint16_t>(format.infinity())), kInfinity);
  EXPECT_EQ(format.decode(static_cast<std::uint16_t>(format.infinity() | 0x8000)), -kInfinity);
  for (const float x : {kInfinity, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(int{format.encode(x)}, format.infinity());
    EXPECT_EQ(int{format.encode(-x)}, format.infinity() | 0x8000);
  }
}

TEST_P(HalfTest, NaNStaysNaNWithItsSign) {
  const Format& format = GetParam();
  for (int code = format.infinity() + 1; code < 0x8000; ++code) {
    ASSERT_TRUE(std::isnan(format.decode(static_cast<std::uint16_t>(code))));
  }
  for (const std::uint32_t bits : {0x7FC00000u, 0x7F800001u, 0x7FFFFFFFu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const std::uint16_t code = format.encode(std::bit_cast<float>(bits | sign));
      EXPECT_GT(code & 0x7FFF, format.infinity());
      EXPECT_EQ(code >> 15, static_cast<int>(sign >> 31));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfTest,
                         testing::Values(Format{"Fp16", 10, 5, DecodeFp16, EncodeFp16},
                                         Format{"Bf16", 7, 8, DecodeBf16, EncodeBf16}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace kv8
