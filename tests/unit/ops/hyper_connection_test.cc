// Hyper-connections against their oracles.
#include <gtest/gtest.h>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "unit/ops/dense_operands.h"
#include "unit/ops/owned_weights.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

struct Case {
  Case(std::int64_t row_count, int stream_count, std::int64_t hidden, std::int64_t rank,
       bool final_mixer = false)
      : rows(row_count),
        count(stream_count),
        dim(hidden),
        down(WeightFormat::kBf16, rank, count * dim, 1),
        up(WeightFormat::kBf16, count * dim, rank, 2),
        inject(WeightFormat::kBf16, count, count * dim, 3),
        streams(RandomValues(rows * count * dim, 4, 3.0f)) {
    weights = {RandomValues(count * dim, 5), down.view(), up.view(),
               final_mixer ? Weight{} : inject.view()};
  }

  /// x [rows,dim], then inject [rows,count]; rows before `first` stay zero.
  std::vector<float> Mix(HyperMixFn& mix, int threads, std::int64_t first = 0) const {
    std::vector<float> out(static_cast<std::size_t>(rows * (dim + count)));
    const Matrix x(out.data(), rows, dim);
    const Matrix gates(out.data() + rows * dim, rows, count);
    ThreadPool pool(threads);
    const ConstMatrix in(streams.data(), rows, count * dim);
    mix(test::ContextOf(pool), in.Rows(first, rows - first), weights, count, 1e-6f,
        x.Rows(first, rows - first),
        weights.inject.empty() ? Matrix() : gates.Rows(first, rows - first));
    return out;
  }

  std::int64_t rows;
  int count;
  std::int64_t dim;
  StoredWeight down, up, inject;
  OwnedHyperConnectionWeights weights;
  std::vector<float> streams;
};

TEST(HyperMix, MatchesTheOracle) {
  for (const bool final_mixer : {false, true}) {
    for (const std::int64_t rows : {1, 2, 5, 50, 67}) {
      for (const std::int64_t dim : {5, 24, 192}) {
        const Case test(rows, 4, dim, 32, final_mixer);
        const std::vector<float> expected = test.Mix(reference::HyperMix, 1);
        ForEachSimdTarget(
            [&] { ExpectClose(test.Mix(simd::HyperMix, 1), expected, tolerance::kHyperMix); });
      }
    }
  }
}

TEST(HyperMix, BitsDependOnTheRowAlone) {
  const Case test(130, 4, 192, 32);
  const std::vector<float> all = test.Mix(simd::HyperMix, 1);
  for (const int threads : {2, 3}) ExpectSameBits(test.Mix(simd::HyperMix, threads), all);
  for (const std::int64_t count : {1, 17, 64, 65}) {
    const std::int64_t first = test.rows - count;
    const std::vector<float> some = test.Mix(simd::HyperMix, 2, first);
    const std::size_t x_end = static_cast<std::size_t>(test.rows * test.dim);
    const std::size_t x = static_cast<std::size_t>(first * test.dim);
    ExpectSameBits(std::span(some).subspan(x, x_end - x), std::span(all).subspan(x, x_end - x));
    const std::size_t gates = x_end + static_cast<std::size_t>(first * test.count);
    ExpectSameBits(std::span(some).subspan(gates), std::span(all).subspan(gates));
  }
}

TEST(HyperMix, ExtremeStreams) {
  Case test(3, 4, 24, 8);
  for (std::size_t i = 0; i < test.streams.size(); ++i) test.streams[i] *= i < 96 ? 1e15f : 1e-30f;
  const std::vector<float> expected = test.Mix(reference::HyperMix, 1);
  ForEachSimdTarget(
      [&] { ExpectClose(test.Mix(simd::HyperMix, 1), expected, tolerance::kHyperMix); });
}

TEST(HyperCombine, MatchesTheOracle) {
  for (const std::int64_t rows : {1, 67}) {
    for (const std::int64_t dim : {5, 192}) {
      const std::vector<float> y = RandomValues(rows * dim, 1);
      const std::vector<float> inject = RandomValues(rows * 4, 2);
      const std::vector<float> start = RandomValues(rows * 4 * dim, 3);
      const auto run = [&](HyperCombineFn& combine, int threads) {
        std::vector<float> streams = start;
        ThreadPool pool(threads);
        combine(test::ContextOf(pool), ConstMatrix(y.data(), rows, dim),
                ConstMatrix(inject.data(), rows, 4), Matrix(streams.data(), rows, 4 * dim));
        return streams;
      };
      const std::vector<float> expected = run(reference::HyperCombine, 1);
      ForEachSimdTarget([&] {
        const std::vector<float> one = run(simd::HyperCombine, 1);
        ExpectClose(one, expected, tolerance::kRounding);
        ExpectSameBits(run(simd::HyperCombine, 3), one);
      });
    }
  }
}

/// Few rows take from the calling thread's, pieces of more from each thread's.
TEST(HyperMix, TakesThePlannedScratchExactly) {
  const Case few(7, 4, 24, 8), many(130, 4, 24, 8);
  const OpSizes sizes{.rows = 130, .hidden = 24, .streams = 4, .lowrank = 8};
  test::ExpectExactScratch(simd::HyperMixScratch(sizes), [&] {
    few.Mix(simd::HyperMix, 1);
    many.Mix(simd::HyperMix, 1);
  });
}

}  // namespace
}  // namespace kv8
