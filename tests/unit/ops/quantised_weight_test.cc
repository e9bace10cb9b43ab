// Ops over weights that are stored as codes with scales, against their oracles: every form of every
// format, at shapes that fill no vector, no group and no block.
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "tensor/weight_row.h"
#include "unit/ops/dense_operands.h"
#include "unit/ops/quantised_weight.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

/// x [rows, cols] . weight^T, [rows, weight.rows]
std::vector<float> Multiply(LinearFn& linear, std::span<const float> x, const Weight& weight,
                            int threads = 1) {
  const std::int64_t rows = std::ssize(x) / weight.cols;
  std::vector<float> out(static_cast<std::size_t>(rows * weight.rows));
  const LinearPart part{weight, Matrix(out.data(), rows, weight.rows)};
  ThreadPool pool(threads);
  linear(test::ContextOf(pool), ConstMatrix(x.data(), rows, weight.cols), {&part, 1});
  return out;
}

void ExpectAsTheOracle(std::span<const float> x, const Weight& weight) {
  const std::vector<float> expected = Multiply(reference::Linear, x, weight);
  ForEachSimdTarget(
      [&] { ExpectClose(Multiply(simd::Linear, x, weight), expected, tolerance::kLinear); });
}

TEST(QuantisedLinear, MatchesTheOracle) {
  for (const QuantisedForm& form : QuantisedForms()) {
    SCOPED_TRACE(form.name());
    for (const std::int64_t cols : {7, 16, 48, 130, 192, 650}) {
      SCOPED_TRACE(cols);
      for (const std::int64_t outs : {3, 36, 150}) {
        const QuantisedWeight weight(form, outs, cols, 1);
        for (const std::int64_t rows : {1, 2, 30}) {
          ExpectAsTheOracle(RandomValues(rows * cols, 2), weight.view());
        }
      }
    }
  }
}

TEST(QuantisedLinear, BitsDependOnTheRowAlone) {
  for (const QuantisedForm& form : QuantisedForms()) {
    SCOPED_TRACE(form.name());
    const QuantisedWeight weight(form, 200, 176, 1);
    const std::vector<float> x = RandomValues(65 * 176, 2);
    ForEachSimdTarget([&] {
      const std::vector<float> all = Multiply(simd::Linear, x, weight.view());
      for (const int threads : {2, 3}) {
        ExpectSameBits(Multiply(simd::Linear, x, weight.view(), threads), all);
      }
      for (const std::size_t count : {1, 2, 9, 28, 29}) {
        const auto some = Multiply(simd::Linear, std::span(x).last(count * 176), weight.view(), 2);
        ExpectSameBits(some, std::span(all).last(count * 200));
      }
    });
  }
}

/// A slice of rows gives what the whole gives for them, wherever it begins in a block.
TEST(QuantisedLinear, SlicesOfRows) {
  for (const QuantisedForm& form : QuantisedForms()) {
    SCOPED_TRACE(form.name());
    const QuantisedWeight weight(form, 300, 160, 1);
    const std::vector<float> x = RandomValues(160, 2);
    const std::vector<float> all = Multiply(simd::Linear, x, weight.view());
    for (const std::size_t begin : {1, 64, 128, 250}) {
      const Weight slice = weight.view().Rows(static_cast<std::int64_t>(begin), 50);
      ExpectSameBits(Multiply(simd::Linear, x, slice), std::span(all).subspan(begin, 50));
    }
  }
}

/// Every code at every place of a vector: a unit vector gives code times scale, to the bit.
TEST(QuantisedLinear, EveryCodeExactly) {
  for (QuantisedForm form : QuantisedForms()) {
    SCOPED_TRACE(form.name());
    form.global_scale = 1;
    constexpr std::int64_t kRows = 16, kCols = 64;
    QuantisedWeight weight(form, kRows, kCols, 1);
    for (std::int64_t i = 0; i < kRows * weight.view().code_row_bytes(); ++i) {
      const auto code = static_cast<std::uint8_t>(i * 37 + i / 256);
      const bool nan = form.format == WeightFormat::kFp8 && (code & 0x7F) == kE4M3NaNCode;
      weight.codes()[i] = static_cast<std::byte>(nan ? 0 : code);
    }
    Weight view = weight.view();
    view.global_scale = 1;
    std::vector<float> units(kCols * kCols);
    for (std::int64_t k = 0; k < kCols; ++k) units[static_cast<std::size_t>(k * (kCols + 1))] = 1;
    ForEachSimdTarget([&] {
      const std::vector<float> many = Multiply(simd::Linear, units, view);
      for (std::int64_t k = 0; k < kCols; ++k) {
        const auto one = Multiply(simd::Linear, std::span(units).subspan(k * kCols, kCols), view);
        for (std::int64_t n = 0; n < kRows; ++n) {
          ASSERT_EQ(one[n], CodeAt(view, n, k) * ScaleAt(view, n, k)) << n << ", " << k;
          ASSERT_EQ(one[n], many[k * kRows + n]) << n << ", " << k;
        }
      }
    });
  }
}

/// Values that are no numbers reach the outputs of their own rows, and no others.
TEST(QuantisedLinear, NaNCodes) {
  const QuantisedForm form = QuantisedForms().front();
  for (const int place : {0, 21, 33, 50}) {
    QuantisedWeight weight(form, 20, 51, 1);
    weight.codes()[7 * 51 + place] = static_cast<std::byte>(place % 2 == 0 ? 0x7F : 0xFF);
    for (const std::int64_t rows : {1, 3}) {
      const std::vector<float> x = RandomValues(rows * 51, 2);
      ForEachSimdTarget([&] {
        const std::vector<float> out = Multiply(simd::Linear, x, weight.view());
        for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i % 20 == 7);
      });
    }
  }
}

TEST(QuantisedLinear, ScalesThatAreNoNumbers) {
  const float values[] = {std::numeric_limits<float>::infinity(), 0.0f, -0x1p-6f, 0x1p-130f,
                          std::numeric_limits<float>::quiet_NaN()};
  for (const QuantisedForm& form : QuantisedForms()) {
    if (form.group == 0) continue;
    SCOPED_TRACE(form.name());
    for (const float value : values) {
      QuantisedWeight weight(form, 20, 80, 1);
      const int bytes = ScaleBytes(form.scale_format);
      const std::uint8_t e4m3 = std::isnan(value) ? 0xFF : EncodeE4M3(value);
      const std::uint16_t half =
          form.scale_format == ScaleFormat::kBf16 ? EncodeBf16(value) : EncodeFp16(value);
      const void* from = bytes == 1   ? static_cast<const void*>(&e4m3)
                         : bytes == 2 ? static_cast<const void*>(&half)
                                      : static_cast<const void*>(&value);
      std::memcpy(weight.scales(), from, static_cast<std::size_t>(bytes));
      for (const std::int64_t rows : {1, 2}) {
        const std::vector<float> x = RandomValues(rows * 80, 2);
        // An infinity's sign, or NaN where both or a code of 0 met it: as in double precision.
        ExpectAsTheOracle(x, weight.view());
      }
    }
  }
}

/// Rows of tables: code times scale times global scale, each product rounded.
TEST(QuantisedRows, EmbedGivesTheDefinedValues) {
  for (const QuantisedForm& form : QuantisedForms()) {
    SCOPED_TRACE(form.name());
    const QuantisedWeight table(form, 40, 50, 1);
    const std::vector<TokenId> ids = {0, 39, 17, 17};
    const auto run = [&](EmbedFn& embed) {
      std::vector<float> out(ids.size() * 2 * 50);
      ThreadPool pool(2);
      embed(test::ContextOf(pool), ids, table.view(), 2,
            Matrix(out.data(), std::ssize(ids), 2 * 50));
      return out;
    };
    const std::vector<float> out = run(simd::Embed);
    ExpectClose(out, run(reference::Embed), tolerance::kRounding);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t row = ids[i / 100], col = static_cast<std::int64_t>(i % 50);
      const float value = CodeAt(table.view(), row, col) * ScaleAt(table.view(), row, col);
      ASSERT_EQ(out[i], value * table.view().global_scale) << i;
    }
  }
}

/// Unfused experts: gate, up and down with scales of their own, in formats of their own.
TEST(QuantisedMoe, MatchesTheOracle) {
  constexpr std::int64_t kHidden = 96, kWidth = 40;
  const MoeConfig config{12, 3, kWidth, kWidth};
  std::vector<std::unique_ptr<QuantisedWeight>> kept;
  const auto make = [&](std::size_t form, std::int64_t rows, std::int64_t cols) {
    const QuantisedForm& of = QuantisedForms()[form % QuantisedForms().size()];
    const auto seed = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::make_unique<QuantisedWeight>(of, rows, cols, seed));
    return kept.back()->view();
  };
  MoeWeights weights{.router = make(3, 12, kHidden)};
  for (std::size_t e = 0; e < 12; ++e) {
    weights.gate.push_back(make(e, kWidth, kHidden));
    weights.up.push_back(make(e + 1, kWidth, kHidden));
    weights.up.back().global_scale *= 1.5f;
    weights.down.push_back(make(e + 2, kHidden, kWidth));
  }
  weights.shared_gate_proj = make(0, kWidth, kHidden);
  weights.shared_up_proj = make(3, kWidth, kHidden);
  weights.shared_down_proj = make(1, kHidden, kWidth);
  weights.shared_gate = make(5, 1, kHidden);
  for (const std::int64_t rows : {1, 40}) {
    const std::vector<float> x = RandomValues(rows * kHidden, 9);
    const auto run = [&](MoeFn& moe, int threads) {
      std::vector<float> out(x.size());
      ThreadPool pool(threads);
      moe(test::ContextOf(pool), config, weights, ConstMatrix(x.data(), rows, kHidden),
          Matrix(out.data(), rows, kHidden));
      return out;
    };
    const std::vector<float> expected = run(reference::Moe, 1);
    ForEachSimdTarget([&] {
      const std::vector<float> out = run(simd::Moe, 1);
      ExpectClose(out, expected, tolerance::kMoe);
      ExpectSameBits(run(simd::Moe, 3), out);
    });
  }
}

}  // namespace
}  // namespace kv8
