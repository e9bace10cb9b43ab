// docs/spec/numerics.md from NUM-34 on: what stored weights are; ops run on every backend.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "ops/op_table.h"
#include "spec/numerics_operands.h"

namespace kv8 {
namespace {

/// NVFP4 [2,32]: row 0 has every code twice, row 1 codes of 3; scales of 1 to 4 by group.
struct Nvfp4Case {
  std::array<std::uint8_t, 32> codes;
  std::array<std::uint8_t, 4> scales;
  float global_scale = 0.3f;

  Nvfp4Case() {
    for (std::size_t i = 0; i < 16; ++i) {
      codes[i] = static_cast<std::uint8_t>((i * 2 + 1) % 16 << 4 | i * 2 % 16);
      codes[16 + i] = 0x55;
    }
    for (std::size_t i = 0; i < 4; ++i) scales[i] = EncodeE4M3(static_cast<float>(i + 1));
  }
  Weight view() const {
    return {.format = WeightFormat::kNvfp4,
            .rows = 2,
            .cols = 32,
            .codes = reinterpret_cast<const std::byte*>(codes.data()),
            .scales = reinterpret_cast<const std::byte*>(scales.data()),
            .global_scale = global_scale,
            .group = 16,
            .scale_format = ScaleFormat::kE4m3};
  }
  /// Of row 0, without the global scale.
  static float ValueAt(std::size_t col) {
    return DecodeE2M1(static_cast<std::uint8_t>(col % 16)) * (col < 16 ? 1.0f : 2.0f);
  }
};

std::array<float, 2> Multiply(const OpTable& ops, const std::vector<float>& x,
                              const Weight& weight) {
  std::array<float, 2> out{};
  const LinearPart part{weight, Matrix(out.data(), 1, 2)};
  ThreadPool pool(1);
  ops.linear(test::ContextOf(pool), ConstMatrix(x.data(), 1, weight.cols), {&part, 1});
  return out;
}

TEST(SpecNumerics, Num34_E2m1RoundsToEvenAndSaturates) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) {
    EXPECT_EQ(DecodeE2M1(static_cast<std::uint8_t>(code)), kValues[code]);
    EXPECT_EQ(DecodeE2M1(static_cast<std::uint8_t>(code | 8)), -kValues[code]);
    if (code == 7) continue;
    const float tie = (kValues[code] + kValues[code + 1]) / 2;
    EXPECT_EQ(EncodeE2M1(tie), (code + 1) / 2 * 2);
    EXPECT_EQ(EncodeE2M1(std::nextafter(tie, 0.0f)), code);
    EXPECT_EQ(EncodeE2M1(std::nextafter(tie, 9.0f)), code + 1);
  }
  EXPECT_EQ(EncodeE2M1(-1e30f), 15);
}

TEST(SpecNumerics, Num35_TheGlobalScaleMultipliesTheSum) {
  for (const OpTable* ops : Backends()) {
    Nvfp4Case test;
    for (std::size_t col = 0; col < 32; ++col) {
      std::vector<float> unit(32);
      unit[col] = 1;
      EXPECT_EQ(Multiply(*ops, unit, test.view())[0], Nvfp4Case::ValueAt(col) * 0.3f) << col;
    }
    const std::vector<float> x = RandomValues(32, 1);
    const std::array<float, 2> out = Multiply(*ops, x, test.view());
    test.global_scale /= 1024;
    const std::array<float, 2> scaled = Multiply(*ops, x, test.view());
    for (std::size_t n = 0; n < 2; ++n) EXPECT_EQ(scaled[n] * 1024, out[n]);
  }
}

TEST(SpecNumerics, Num36_LookedUpRowsHaveTheSameValues) {
  for (const OpTable* ops : Backends()) {
    const Nvfp4Case test;
    const std::array<TokenId, 1> ids{0};
    std::vector<float> out(32);
    ThreadPool pool(1);
    ops->embed(test::ContextOf(pool), ids, test.view(), 1, Matrix(out.data(), 1, 32));
    for (std::size_t col = 0; col < 32; ++col) EXPECT_EQ(out[col], Nvfp4Case::ValueAt(col) * 0.3f);
  }
}

TEST(SpecNumerics, Num37_NaNScalesStayInTheirRows) {
  for (const OpTable* ops : Backends()) {
    Nvfp4Case test;
    test.scales[3] = kE4M3NaNCode;
    const std::array<float, 2> out = Multiply(*ops, RandomValues(32, 1), test.view());
    EXPECT_FALSE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    const std::array<std::uint8_t, 8> fp8{0x38, 0x38, 0x38, 0x7F, 0x38, 0x38, 0x38, 0x38};
    const Weight codes{WeightFormat::kFp8, 2, 4, reinterpret_cast<const std::byte*>(fp8.data())};
    const std::array<float, 2> sums = Multiply(*ops, {1, 1, 1, 0}, codes);
    EXPECT_TRUE(std::isnan(sums[0]));
    EXPECT_EQ(sums[1], 3);
  }
}

}  // namespace
}  // namespace kv8
