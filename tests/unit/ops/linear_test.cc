// Matrix products against their oracle, and the order of summation that they promise.
#include <gtest/gtest.h>

#include <limits>

#include "ops/cpu/product.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "unit/ops/dense_operands.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

constexpr float kGuard = 12345.0f;

/// Two parts with one input; every matrix has gaps between its rows.
struct Case {
  Case(WeightFormat format, std::int64_t row_count, std::int64_t width, std::int64_t outputs,
       std::uint32_t seed = 1)
      : rows(row_count),
        k(width),
        n(outputs),
        x(RandomValues(rows * (k + 3), seed)),
        first(format, n, k, seed + 1),
        second(format, 5, k, seed + 2) {}

  /// Outputs of both parts with their guards: [rows, n + 2] then [rows, 5 + 2].
  std::vector<float> Run(LinearFn& linear, int threads, std::int64_t begin, std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(rows * (n + 7 + 2)), kGuard);
    const Matrix y1(out.data(), rows, n, n + 2);
    const Matrix y2(out.data() + rows * (n + 2), rows, 5, 7);
    const LinearPart parts[] = {{first.view(), y1.Rows(begin, count)},
                                {second.view(), y2.Rows(begin, count)}};
    ThreadPool pool(threads);
    linear(test::ContextOf(pool), ConstMatrix(x.data(), rows, k, k + 3).Rows(begin, count),
           std::span(parts));
    return out;
  }
  std::vector<float> Run(LinearFn& linear, int threads = 1) {
    return Run(linear, threads, 0, rows);
  }

  std::int64_t rows, k, n;
  std::vector<float> x;
  StoredWeight first, second;
};

TEST(Linear, MatchesTheOracle) {
  for (const WeightFormat format : kPlainFormats) {
    for (const std::int64_t rows : {1, 2, 3, 7, 13, 67}) {
      for (const std::int64_t k : {1, 2, 4, 7, 8, 12, 31, 64, 97}) {
        for (const std::int64_t n : {1, 4, 8, 9, 16, 36}) {
          Case test(format, rows, k, n);
          const std::vector<float> expected = test.Run(reference::Linear);
          ForEachSimdTarget(
              [&] { ExpectClose(test.Run(simd::Linear), expected, tolerance::kLinear); });
        }
      }
    }
  }
}

TEST(Linear, BitsDependOnTheRowAlone) {
  for (const WeightFormat format : kPlainFormats) {
    for (const std::int64_t k : {32, 76, 190, 191, 192}) {
      Case test(format, 65, k, 260);
      ForEachSimdTarget([&] {
        const std::vector<float> here = test.Run(simd::Linear);
        for (const int threads : {2, 3}) ExpectSameBits(test.Run(simd::Linear, threads), here);
        for (const std::int64_t count : {1, 2, 3, 8, 17, 28, 29, 64}) {
          const std::int64_t begin = 65 - count;
          const std::vector<float> some = test.Run(simd::Linear, 2, begin, count);
          const std::size_t at = static_cast<std::size_t>(begin * 262);
          const std::size_t size = static_cast<std::size_t>(count * 262);
          ExpectSameBits(std::span(some).subspan(at, size), std::span(here).subspan(at, size));
        }
      });
    }
  }
}

/// k = 0, 1, 4, 5, ... ascending, plus k = 2, 3, 6, 7, ... ascending, one fused multiply-add each:
/// checked on the targets that have one.
TEST(Linear, SumsInTheStatedOrder) {
  for (const std::int64_t depth : {74, 75, 76}) {
    Case test(WeightFormat::kFp32, 8, depth, 24);
    const std::vector<float> weights = RandomValues(24 * depth, 9);
    test.first = StoredWeight(WeightFormat::kFp32, 24, depth, weights);
    ForEachSimdTarget([&] {
      if ((hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3 | HWY_NEON)) == 0) return;
      for (const std::int64_t rows : {1, 4, 8}) {
        const std::vector<float> out = test.Run(simd::Linear, 1, 0, rows);
        for (std::int64_t t = 0; t < rows; ++t) {
          for (std::int64_t n = 0; n < 24; ++n) {
            float sum[2] = {0, 0};
            for (std::int64_t k = 0; k < depth; ++k) {
              float& bracket = sum[k / 2 % 2];
              bracket = std::fma(test.x[static_cast<std::size_t>(t * (depth + 3) + k)],
                                 weights[static_cast<std::size_t>(n * depth + k)], bracket);
            }
            ASSERT_EQ(out[static_cast<std::size_t>(t * 26 + n)], sum[0] + sum[1]) << t << ' ' << n;
          }
        }
      }
    });
  }
}

TEST(Linear, ExactForSmallIntegers) {
  const std::int64_t k = 129;
  for (const WeightFormat format : kPlainFormats) {
    Case test(format, 5, k, 33);
    test.x = RandomIntegers(5 * (k + 3), 4, 9);
    test.first = StoredWeight(format, 33, k, RandomIntegers(33 * k, 5, 9));
    test.second = StoredWeight(format, 5, k, RandomIntegers(5 * k, 6, 9));
    const std::vector<float> expected = test.Run(reference::Linear);
    ForEachSimdTarget([&] { ExpectSameBits(test.Run(simd::Linear), expected); });
  }
}

/// Codes that only a full decoder gets right: subnormals, the largest and smallest values.
TEST(Linear, DecodesExtremeWeights) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp16}) {
    std::vector<float> codes;
    for (std::uint32_t code = 0; code < 0x10000; code += 7) {
      const auto c = static_cast<std::uint16_t>(code);
      codes.push_back(format == WeightFormat::kBf16 ? DecodeBf16(c) : DecodeFp16(c));
    }
    codes.resize(codes.size() / 16 * 16);
    const auto n = static_cast<std::int64_t>(codes.size() / 16);
    for (const std::int64_t rows : {1, 4}) {
      for (int pick = 0; pick < 16; ++pick) {  // x selects one weight of every row
        Case test(format, rows, 16, n);
        test.first = StoredWeight(format, n, 16, codes);
        std::fill(test.x.begin(), test.x.end(), 0.0f);
        for (std::int64_t t = 0; t < rows; ++t) {
          test.x[static_cast<std::size_t>(t * 19 + pick)] = 1.0f;
        }
        const std::vector<float> expected = test.Run(reference::Linear);
        ForEachSimdTarget([&] { ExpectClose(test.Run(simd::Linear), expected, 0.0f); });
      }
    }
  }
}

TEST(Linear, HugeAndTinyInputs) {
  Case test(WeightFormat::kBf16, 7, 64, 36);
  for (std::size_t i = 0; i < test.x.size(); ++i) test.x[i] *= i % 3 == 0 ? 1e30f : 1e-38f;
  const std::vector<float> expected = test.Run(reference::Linear);
  ForEachSimdTarget(
      [&] { ExpectClose(test.Run(simd::Linear), expected, 64 * tolerance::kLinear); });
}

/// The widest product of the released model: 53 times the terms that the tolerance is meant for.
TEST(Linear, ReleasedModelWidth) {
  for (const std::int64_t rows : {1, 7}) {
    Case test(WeightFormat::kBf16, rows, 10240, 36);
    const std::vector<float> expected = test.Run(reference::Linear);
    ForEachSimdTarget(
        [&] { ExpectClose(test.Run(simd::Linear), expected, 16 * tolerance::kLinear); });
  }
}

TEST(Linear, NaNsStayInTheirRow) {
  Case test(WeightFormat::kBf16, 8, 40, 20);
  test.x[static_cast<std::size_t>(3 * 43 + 39)] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> expected = test.Run(reference::Linear);
  EXPECT_TRUE(std::isnan(expected[3 * 22]));
  EXPECT_FALSE(std::isnan(expected[4 * 22]));
  ForEachSimdTarget([&] { ExpectClose(test.Run(simd::Linear), expected, tolerance::kLinear); });
}

TEST(Linear, NoRows) {
  Case test(WeightFormat::kBf16, 2, 16, 20);
  for (const float value : test.Run(simd::Linear, 2, 1, 0)) EXPECT_EQ(value, kGuard);
}

/// Rows of one x are packed for all threads; of several, by the thread that needs them.
TEST(Linear, TakesThePlannedScratchExactly) {
  const std::int64_t k = 96;
  const std::vector<float> x = RandomValues(2 * 67 * k, 1);
  const StoredWeight weight(WeightFormat::kBf16, 40, k, 2);
  std::vector<float> out(2 * 67 * 40);
  ThreadPool pool(1);
  const auto run = [&](std::int64_t rows, std::int64_t count) {
    std::vector<simd::Product> products;
    for (std::int64_t i = 0; i < count; ++i) {
      products.push_back({ConstMatrix(x.data() + i * 67 * k, rows, k), weight.view(),
                          Matrix(out.data() + i * 67 * 40, rows, 40)});
    }
    const OpContext ctx = test::ContextOf(pool);
    simd::RunProducts(ctx, ctx.scratch.shared, products);
  };
  const OpSizes sizes{.linear_rows = 67, .linear_cols = k};
  test::ExpectExactScratch(simd::LinearScratch(sizes), [&] {
    for (const std::int64_t rows : {1, 2, 27, 28, 29, 67}) {
      run(rows, 1);
      run(rows, 2);
    }
  });
}

}  // namespace
}  // namespace kv8
