// Each oracle finds the nearest code by trying all of them, in the layouts as they are published.
#include "synth/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/half.h"
#include "numeric/split_mix64.h"

namespace kv8 {
namespace {

std::vector<float> Numbers(std::int64_t count, std::uint64_t seed) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = SplitMix64(seed + kSplitMixGamma * static_cast<std::uint64_t>(i));
    const float magnitude = std::ldexp(1.0f + static_cast<float>(bits & 0xFFFF) / 65536,
                                       -static_cast<int>(bits >> 16 & 7));
    out.push_back(bits >> 63 != 0 ? -magnitude : magnitude);
  }
  return out;
}

/// Smallest distance of `value` to what any of `codes` codes means.
float Nearest(float value, int codes, const std::function<float(int)>& meaning) {
  float best = INFINITY;
  for (int code = 0; code < codes; ++code) {
    const float distance = std::abs(value - meaning(code));
    if (distance < best) best = distance;
  }
  return best;
}

/// A distance that is the smallest but for the rounding of the division.
void ExpectNearest(float value, float stored, float nearest) {
  EXPECT_LE(std::abs(value - stored), nearest + 1e-5f * std::abs(value)) << value;
}

TEST(QuantiseFp8, TakesTheNearestCodeWithTheScaleOfEachBlock) {
  constexpr std::int64_t kRows = 130, kCols = 260;  // short blocks at both edges
  std::vector<float> values = Numbers(kRows * kCols, 1);
  values[5] = 100;  // of block 0 alone
  const Fp8Matrix q = QuantiseFp8(ConstMatrix(values.data(), kRows, kCols));
  ASSERT_EQ(q.scales.size(), 2 * 3);
  EXPECT_EQ(q.scales[0], EncodeBf16(100.0f / 448));
  EXPECT_LT(DecodeBf16(q.scales[1]), 0.01f);
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t block = i / kCols / 128 * 3 + i % kCols / 128;
    const float scale = DecodeBf16(q.scales[static_cast<std::size_t>(block)]);
    const auto meaning = [scale](int code) {
      return DecodeE4M3(static_cast<std::uint8_t>(code)) * scale;
    };
    ExpectNearest(values[at], meaning(q.codes[at]), Nearest(values[at], 256, meaning));
  }
}

TEST(QuantiseNvfp4, TakesTheNearestCodeWithBothScales) {
  constexpr std::int64_t kRows = 6, kCols = 64;
  std::vector<float> values = Numbers(kRows * kCols, 2);
  std::fill_n(values.begin() + 16, 16, 0.0f);
  const ConstMatrix w(values.data(), kRows, kCols);
  const float global = Nvfp4GlobalScale(Magnitude(w));
  EXPECT_EQ(global, Magnitude(w) / 2688);
  const Nvfp4Matrix q = QuantiseNvfp4(w, global);
  EXPECT_EQ(DecodeE4M3(q.scales[1]), 1);  // zeros
  for (std::int64_t i = 0; i < kRows * kCols; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const float scale = DecodeE4M3(q.scales[at / 16]) * global;
    const int code = q.codes[at / 2] >> (i % 2 * 4) & 15;
    const auto meaning = [scale](int c) {
      return DecodeE2M1(static_cast<std::uint8_t>(c)) * scale;
    };
    ExpectNearest(values[at], meaning(code), Nearest(values[at], 16, meaning));
  }
}

TEST(QuantiseNvfp4, ScalesOfBlocksComeFromTheirMagnitudes) {
  std::vector<float> values(48, 0.0f);
  values[3] = 6 * 448;     // scale 448 beside a global one of 1
  values[20] = -6;         // scale 1
  values[40] = 6 * 1e-6f;  // less than the smallest code, which it gets
  const Nvfp4Matrix q = QuantiseNvfp4(ConstMatrix(values.data(), 1, 48), 1);
  EXPECT_EQ(q.scales, (std::vector<std::uint8_t>{EncodeE4M3(448), EncodeE4M3(1), 1}));
  EXPECT_EQ(q.codes[1] >> 4, kE2M1MaxCode);
  EXPECT_EQ(q.codes[10] & 15, kE2M1MaxCode | 8);
}

/// Code of element i of a row-major matrix, zero point of its row and group.
int Int4Code(const Int4Matrix& q, std::int64_t i) {
  return static_cast<int>(q.codes[static_cast<std::size_t>(i / 8)] >> (i % 8 * 4) & 15);
}

TEST(QuantiseInt4, TakesTheNearestCodeOfEachGroup) {
  constexpr std::int64_t kRows = 16, kCols = 96, kGroup = 32, kGroups = kCols / kGroup;
  std::vector<float> values = Numbers(kRows * kCols, 3);
  for (std::size_t i = 0; i < kGroup; ++i) values[i] = std::abs(values[i]);  // zero point 0
  for (const bool symmetric : {false, true}) {
    const Int4Matrix q = QuantiseInt4(ConstMatrix(values.data(), kRows, kCols), kGroup, symmetric);
    ASSERT_EQ(q.zero_points.size(), symmetric ? 0 : kRows / 8 * kGroups);
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      const std::int64_t row = i / kCols, group = i % kCols / kGroup;
      const float scale = DecodeBf16(q.scales[static_cast<std::size_t>(row * kGroups + group)]);
      const int zero =
          symmetric ? 8
                    : static_cast<int>(
                          q.zero_points[static_cast<std::size_t>(row / 8 * kGroups + group)] >>
                              (row % 8 * 4) &
                          15);
      const auto meaning = [&](int code) { return static_cast<float>(code - zero) * scale; };
      const float value = values[static_cast<std::size_t>(i)];
      ExpectNearest(value, meaning(Int4Code(q, i)), Nearest(value, 16, meaning));
      if (!symmetric && row == 0 && group == 0) {
        EXPECT_EQ(zero, 0);
      }
    }
  }
}

TEST(Quantise, WhatTheFormatsCanSayComesBackExactly) {
  std::vector<float> values(2 * 128);
  // NVFP4: all codes under block scales 2 and 0.5.
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = DecodeE2M1(static_cast<std::uint8_t>(i % 16)) * (i % 32 < 16 ? 2.0f : 0.5f);
  }
  const ConstMatrix w(values.data(), 2, 128);
  const Nvfp4Matrix four = QuantiseNvfp4(w, 1);
  const Fp8Matrix eight = QuantiseFp8(w);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int code = four.codes[i / 2] >> (i % 2 * 4) & 15;
    EXPECT_EQ(DecodeE2M1(static_cast<std::uint8_t>(code)) * DecodeE4M3(four.scales[i / 16]),
              values[i]);
  }
  // INT4: 15 whole steps of 2^-3 from -4 steps on.
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i % 16) - 4) / 8;
  const Int4Matrix q = QuantiseInt4(ConstMatrix(values.data(), 8, 32), 32, false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(Int4Code(q, static_cast<std::int64_t>(i)), static_cast<int>(i % 16));
  }
  EXPECT_EQ(q.zero_points, std::vector<std::uint32_t>{0x44444444});
  EXPECT_EQ(q.scales, std::vector<std::uint16_t>(8, EncodeBf16(0.125f)));
}

TEST(Quantise, ZerosHaveScaleOne) {
  const std::vector<float> zeros(256);
  const ConstMatrix w(zeros.data(), 8, 32);
  EXPECT_EQ(QuantiseFp8(w).scales, std::vector<std::uint16_t>{EncodeBf16(1)});
  EXPECT_EQ(Nvfp4GlobalScale(0), 1);
  EXPECT_EQ(QuantiseInt4(w, 32, true).scales[0], EncodeBf16(1));
  EXPECT_EQ(QuantiseInt4(w, 32, true).codes[0], 0x88888888u);
  EXPECT_EQ(QuantiseInt4(w, 32, false).zero_points[0], 0u);
}

}  // namespace
}  // namespace kv8
