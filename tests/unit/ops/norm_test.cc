// Norms and rotary embeddings against their oracles.
#include <gtest/gtest.h>

#include <limits>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "tensor/rope_frequencies.h"
#include "unit/ops/dense_operands.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

constexpr float kEps = 1e-6f;

std::vector<float> RunNorm(GroupedRmsNormFn& norm, int threads, std::span<const float> x,
                           std::int64_t rows, int groups, std::int64_t dim) {
  std::vector<float> out(x.begin(), x.end());  // in place
  const std::vector<float> gain = RandomValues(groups * dim, 2);
  ThreadPool pool(threads);
  const Matrix m(out.data(), rows, groups * dim);
  norm(test::ContextOf(pool), m, gain, groups, kEps, m);
  return out;
}

TEST(GroupedRmsNorm, MatchesTheOracle) {
  for (const std::int64_t dim : {1, 7, 16, 33, 192, 320}) {
    for (const float size : {1e-8f, 1e-3f, 1.0f, 1e15f}) {
      const std::vector<float> x = RandomValues(5 * 4 * dim, 1, size);
      const std::vector<float> expected = RunNorm(reference::GroupedRmsNorm, 1, x, 5, 4, dim);
      ForEachSimdTarget([&] {
        ExpectClose(RunNorm(simd::GroupedRmsNorm, 1, x, 5, 4, dim), expected, tolerance::kNorm);
      });
    }
  }
}

TEST(GroupedRmsNorm, ZerosAndNaNs) {
  std::vector<float> x = RandomValues(4 * 3 * 20, 1);
  std::fill_n(x.begin() + 20, 20, 0.0f);
  x[65] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> expected = RunNorm(reference::GroupedRmsNorm, 1, x, 4, 3, 20);
  EXPECT_EQ(expected[20], 0.0f);
  EXPECT_TRUE(std::isnan(expected[60]));
  ForEachSimdTarget([&] {
    ExpectClose(RunNorm(simd::GroupedRmsNorm, 1, x, 4, 3, 20), expected, tolerance::kNorm);
  });
}

TEST(GroupedRmsNorm, BitsDependOnTheRowAlone) {
  const std::vector<float> x = RandomValues(65 * 768, 1);
  const std::vector<float> all = RunNorm(simd::GroupedRmsNorm, 1, x, 65, 4, 192);
  for (const int threads : {2, 3}) {
    ExpectSameBits(RunNorm(simd::GroupedRmsNorm, threads, x, 65, 4, 192), all);
  }
  const std::span<const float> last = std::span(x).subspan(64 * 768);
  ExpectSameBits(RunNorm(simd::GroupedRmsNorm, 1, last, 1, 4, 192),
                 std::span(all).subspan(64 * 768));
}

struct RopeCase {
  std::int64_t rows;
  int heads;
  std::int64_t dim;
  int rotary;

  std::vector<float> Run(HeadNormRopeFn& fn, int threads, std::int64_t first = 0) const {
    const std::int64_t head_stride = 2 * dim;  // as query heads lie between their gates
    const std::vector<float> x = RandomValues(rows * heads * head_stride, 1);
    const std::vector<float> gain = RandomValues(dim, 2);
    const std::vector<float> inv_freq = RopeFrequencies(1e6, rotary);
    std::vector<std::int64_t> positions;
    for (std::int64_t t = 0; t < rows; ++t) positions.push_back(t * t * 60);
    std::vector<float> out(static_cast<std::size_t>(rows * heads * dim));
    ThreadPool pool(threads);
    const HeadNormRope rope{gain, inv_freq, kEps};
    const ConstMatrix in(x.data(), rows, heads * head_stride);
    const Matrix to(out.data(), rows, heads * dim);
    fn(test::ContextOf(pool), in.Rows(first, rows - first), heads, head_stride, rope,
       std::span(positions).subspan(static_cast<std::size_t>(first)), to.Rows(first, rows - first));
    return out;
  }
};

TEST(HeadNormRope, MatchesTheOracle) {
  for (const RopeCase& test : {RopeCase{67, 3, 64, 16}, RopeCase{5, 12, 64, 64},
                               RopeCase{9, 2, 256, 64}, RopeCase{3, 1, 10, 6}}) {
    const std::vector<float> expected = test.Run(reference::ApplyHeadNormRope, 1);
    ForEachSimdTarget(
        [&] { ExpectClose(test.Run(simd::ApplyHeadNormRope, 1), expected, tolerance::kNorm); });
  }
}

TEST(HeadNormRope, BitsDependOnTheRowAlone) {
  const RopeCase test{65, 12, 64, 16};
  const std::vector<float> all = test.Run(simd::ApplyHeadNormRope, 1);
  for (const int threads : {2, 3}) ExpectSameBits(test.Run(simd::ApplyHeadNormRope, threads), all);
  const std::vector<float> last = test.Run(simd::ApplyHeadNormRope, 1, 64);
  const std::size_t at = 64 * 12 * 64;
  ExpectSameBits(std::span(last).subspan(at), std::span(all).subspan(at));
}

TEST(HeadNormRope, PositionZeroOnlyNormalises) {
  RopeCase test{1, 2, 64, 16};
  const std::vector<float> out = test.Run(simd::ApplyHeadNormRope, 1);
  test.rotary = 0;
  ExpectSameBits(test.Run(simd::ApplyHeadNormRope, 1), out);
}

TEST(RopeFrequencies, FirstAndLast) {
  const std::vector<float> f = RopeFrequencies(1e7, 64);
  ASSERT_EQ(f.size(), 32u);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_FLOAT_EQ(f[31], static_cast<float>(std::pow(1e7, -62.0 / 64.0)));
}

TEST(HeadNormRope, TakesThePlannedScratchExactly) {
  const std::vector<float> gain(160, 1.0f), inv_freq = RopeFrequencies(1e4, 140);
  std::vector<float> x = RandomValues(2 * 160, 1);
  const std::vector<std::int64_t> positions{5, 6};
  OpSizes sizes;
  sizes.qsa.rotary_dim = 140;
  test::ExpectExactScratch(simd::HeadNormRopeScratch(sizes), [&] {
    ThreadPool pool(1);
    simd::ApplyHeadNormRope(test::ContextOf(pool), ConstMatrix(x.data(), 2, 160), 1, 160,
                            {gain, inv_freq, kEps}, positions, Matrix(x.data(), 2, 160));
  });
}

}  // namespace
}  // namespace kv8
