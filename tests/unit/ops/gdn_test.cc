// Gated DeltaNet against its oracle, and its independence of batch, cut and threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "unit/ops/owned_weights.h"
#include "unit/ops/random_values.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

constexpr float kEps = 1e-6f;

struct Sequence {
  std::vector<float> conv_state, state;
};

/// Operands of a batch, and states that runs copy.
struct Case {
  Case(const GdnConfig& shape, std::vector<std::int64_t> lengths, std::uint32_t seed = 3)
      : config(shape), row_counts(std::move(lengths)) {
    for (const std::int64_t n : row_counts) rows += n;
    const std::int64_t channels = config.conv_channels();
    const std::int64_t value_width = std::int64_t{config.value_heads} * config.value_dim;
    weights.conv = RandomValues(channels * config.conv_kernel, seed, 0.7f);
    weights.norm = RandomValues(config.value_dim, seed + 1);
    weights.dt_bias = RandomValues(config.value_heads, seed + 2);
    weights.decay = RandomValues(config.value_heads, seed + 3);
    for (float& rate : weights.decay) rate = -std::exp(rate - 2.0f);
    qkv = RandomValues(rows * channels, seed + 4);
    z = RandomValues(rows * value_width, seed + 5);
    a = RandomValues(rows * config.value_heads, seed + 6);
    b = RandomValues(rows * config.value_heads, seed + 7);
    for (std::size_t i = 0; i < row_counts.size(); ++i) {
      const auto tag = static_cast<std::uint32_t>(seed + 100 + 2 * i);
      start.push_back({RandomValues((config.conv_kernel - 1) * channels, tag),
                       RandomValues(value_width * config.key_dim, tag + 1, 0.3f)});
    }
  }

  struct Outcome {
    std::vector<float> out;
    std::vector<Sequence> end;
  };

  /// All rows in one call.
  Outcome Run(GdnFn& gdn, int threads = 1) const {
    Outcome result{std::vector<float>(z.size()), start};
    std::vector<GdnSlice> slices;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      Sequence& s = result.end[i];
      slices.push_back({begin, row_counts[i], s.conv_state, s.state});
      begin += row_counts[i];
    }
    Call(gdn, threads, slices, result.out);
    return result;
  }

  /// The first sequence alone, in calls of `step` rows.
  Outcome RunInSteps(GdnFn& gdn, std::int64_t step) const {
    Outcome result{std::vector<float>(z.size()), start};
    Sequence& s = result.end[0];
    for (std::int64_t t = 0; t < row_counts[0]; t += step) {
      const GdnSlice slice{t, std::min(step, row_counts[0] - t), s.conv_state, s.state};
      Call(gdn, 1, {&slice, 1}, result.out);
    }
    return result;
  }

  void Call(GdnFn& gdn, int threads, std::span<const GdnSlice> slices,
            std::vector<float>& out) const {
    const std::int64_t channels = config.conv_channels(), heads = config.value_heads;
    const std::int64_t width = heads * config.value_dim;
    const GdnInputs in{{qkv.data(), rows, channels},
                       {z.data(), rows, width},
                       {b.data(), rows, heads},
                       {a.data(), rows, heads}};
    ThreadPool pool(threads);
    gdn(test::ContextOf(pool), config, weights, in, slices, kEps, Matrix(out.data(), rows, width));
  }

  GdnConfig config;
  std::vector<std::int64_t> row_counts;
  std::int64_t rows = 0;
  OwnedGdnWeights weights;
  std::vector<float> qkv, z, a, b;
  std::vector<Sequence> start;
};

void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected,
                 const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << what << i;
    if (std::isnan(expected[i])) continue;
    ASSERT_NEAR(actual[i], expected[i], tolerance::kGdn * std::max(1.0f, std::abs(expected[i])))
        << what << i;
  }
}

void ExpectClose(const Case::Outcome& actual, const Case::Outcome& expected) {
  ExpectClose(actual.out, expected.out, "out ");
  for (std::size_t i = 0; i < actual.end.size(); ++i) {
    ExpectClose(actual.end[i].state, expected.end[i].state, "state ");
    ASSERT_EQ(actual.end[i].conv_state, expected.end[i].conv_state);
  }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr GdnConfig kTiny{4, 8, 32, 32, 4};
constexpr GdnConfig kReleased{2, 6, 128, 128, 4};  // fewer heads
constexpr GdnConfig kOdd{1, 3, 20, 39, 3};

TEST(Gdn, MatchesTheOracle) {
  for (const GdnConfig& config : {kTiny, kReleased, kOdd}) {
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{1}, {2, 0, 17}, {64, 1, 3}, {67}}) {
      const Case test(config, lengths);
      const Case::Outcome expected = test.Run(reference::GdnDecode);
      ForEachSimdTarget([&] {
        ExpectClose(test.Run(simd::GdnDecode), expected);
        ExpectClose(test.Run(simd::GdnPrefill), expected);
      });
    }
  }
}

TEST(Gdn, ChunkedOracleMatchesTheRecurrentOne) {
  for (const GdnConfig& config : {kTiny, kOdd}) {
    const Case test(config, {1, 63, 64, 0, 130});
    ExpectClose(test.Run(reference::GdnPrefill), test.Run(reference::GdnDecode));
  }
}

TEST(Gdn, BitsDoNotDependOnThreadsOrOtherSequences) {
  const Case test(kTiny, {65, 1, 17});
  const Case::Outcome one = test.Run(simd::GdnDecode, 1);
  for (const int threads : {2, 3}) {
    const Case::Outcome other = test.Run(simd::GdnDecode, threads);
    EXPECT_TRUE(SameBits(other.out, one.out));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(SameBits(other.end[i].state, one.end[i].state));
    }
  }
  const Case::Outcome alone = test.RunInSteps(simd::GdnDecode, 65);
  EXPECT_TRUE(SameBits(alone.end[0].state, one.end[0].state));
  EXPECT_EQ(std::memcmp(alone.out.data(), one.out.data(), 65 * 256 * sizeof(float)), 0);
}

TEST(Gdn, BitsDoNotDependOnTheCut) {
  for (const GdnConfig& config : {kTiny, kOdd}) {
    const Case test(config, {67});
    const Case::Outcome whole = test.RunInSteps(simd::GdnPrefill, 67);
    for (const std::int64_t step : {1, 2, 16, 64}) {
      const Case::Outcome cut = test.RunInSteps(simd::GdnDecode, step);
      EXPECT_TRUE(SameBits(cut.out, whole.out)) << step;
      EXPECT_TRUE(SameBits(cut.end[0].state, whole.end[0].state)) << step;
      EXPECT_TRUE(SameBits(cut.end[0].conv_state, whole.end[0].conv_state)) << step;
    }
  }
}

TEST(Gdn, ExtremeGates) {
  Case test(kTiny, {20});
  for (std::size_t i = 0; i < test.a.size(); ++i) {
    constexpr float kValues[] = {1e30f, -1e30f, 0.0f, 88.0f, -88.0f, 1e-40f};
    test.a[i] = kValues[i % 6];
    test.b[i] = kValues[(i / 6) % 6];
    test.qkv[i] = i % 3 == 0 ? 0.0f : 1e-30f;  // nearly zero keys: eps decides
  }
  const Case::Outcome expected = test.Run(reference::GdnDecode);
  ForEachSimdTarget([&] { ExpectClose(test.Run(simd::GdnDecode), expected); });
}

TEST(Gdn, NaNStaysInItsSequence) {
  Case test(kTiny, {5, 6});
  test.a[2 * 8 + 3] = std::numeric_limits<float>::quiet_NaN();  // row 2, head 3
  const Case::Outcome expected = test.Run(reference::GdnDecode);
  ForEachSimdTarget([&] { ExpectClose(test.Run(simd::GdnDecode), expected); });
  EXPECT_TRUE(std::isnan(expected.out[2 * 256 + 3 * 32]));
  EXPECT_FALSE(std::isnan(expected.out[2 * 256 + 4 * 32]));
  EXPECT_FALSE(std::isnan(expected.out[5 * 256 + 3 * 32]));
}

TEST(Gdn, TakesThePlannedScratchExactly) {
  const GdnConfig config{2, 4, 24, 40, 4};
  const Case test(config, {19});
  test::ExpectExactScratch(simd::GdnScratch({.gdn = config}), [&] { test.Run(simd::GdnDecode); });
}

}  // namespace
}  // namespace kv8
