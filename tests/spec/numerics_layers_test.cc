// docs/spec/numerics.md from NUM-21 on: layers and the order of sums; ops run on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/op_table.h"
#include "spec/numerics_operands.h"
#include "support/tolerance.h"

namespace kv8 {
namespace {

TEST(SpecNumerics, Num21_ZeroKeysAreHarmless) {
  for (const OpTable* ops : Backends()) {
    GdnCase test(1);
    std::fill(test.qkv.begin(), test.qkv.end(), 0.0f);
    for (const float value : test.Run(*ops->gdn_decode)) EXPECT_EQ(value, 0.0f);
  }
}

TEST(SpecNumerics, Num22_SoftplusIsLinearForLargeArguments) {
  for (const OpTable* ops : Backends()) {
    GdnCase test(2);
    std::fill(test.a.begin(), test.a.end(), 200.0f);
    std::fill(test.weights.decay.begin(), test.weights.decay.end(), -0.001f);
    std::fill(test.b.begin(), test.b.end(), -200.0f);  // nothing is added
    std::fill(test.state.begin(), test.state.end(), 1.0f);
    test.Run(*ops->gdn_decode);
    for (const float value : test.state) EXPECT_NEAR(value, std::exp(-0.4f), 1e-5f);
  }
}

TEST(SpecNumerics, Num23_ReadsBeyondFp16AreNormalised) {
  for (const OpTable* ops : Backends()) {
    GdnCase test(1);
    std::fill(test.state.begin(), test.state.end(), 1e8f);
    for (const float value : test.Run(*ops->gdn_decode)) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(SpecNumerics, Num24_NormComesBeforeTheSigmoidGate) {
  for (const OpTable* ops : Backends()) {
    GdnCase open(1), half(1);
    open.state = half.state = RandomValues(256, 9);  // so that eps does not matter
    std::fill(open.z.begin(), open.z.end(), 100.0f);
    std::fill(half.z.begin(), half.z.end(), 0.0f);
    const std::vector<float> full = open.Run(*ops->gdn_decode);
    const std::vector<float> gated = half.Run(*ops->gdn_decode);
    double squares = 0;
    for (std::size_t i = 0; i < full.size(); ++i) {
      EXPECT_NEAR(gated[i], full[i] / 2, 1e-6f);
      if (i < 8) squares += std::pow(double{full[i]} / open.weights.norm[i], 2);
    }
    EXPECT_NEAR(squares / 8, 1.0, 1e-3);  // one head of 8 values: weight w, unit RMS
  }
}

TEST(SpecNumerics, Num25_ValueHeadsShareKeysConsecutively) {
  for (const OpTable* ops : Backends()) {
    GdnCase test(1);
    const int keys = test.config.key_heads * test.config.key_dim;
    // Key head 1 gets no key: value heads 2 and 3 store nothing.
    for (int i = 0; i < test.config.key_dim; ++i) {
      test.qkv[static_cast<std::size_t>(keys + test.config.key_dim + i)] = 0.0f;
    }
    test.Run(*ops->gdn_decode);
    const std::size_t head = test.state.size() / 4;
    for (std::size_t h = 0; h < 4; ++h) {
      float largest = 0;
      for (std::size_t i = 0; i < head; ++i) {
        largest = std::max(largest, std::abs(test.state[h * head + i]));
      }
      EXPECT_EQ(largest > 0, h < 2) << h;
    }
  }
}

TEST(SpecNumerics, Num26_PrefillAgreesWithTheRecurrence) {
  for (const OpTable* ops : Backends()) {
    GdnCase chunked(130), recurrent(130);
    const std::vector<float> a = chunked.Run(*ops->gdn_prefill);
    const std::vector<float> b = recurrent.Run(*ops->gdn_decode);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance::kGdn);
    if (ops->name == "simd") {
      EXPECT_EQ(a, b);
    }
  }
}

TEST(SpecNumerics, Num27_NormsMultiplyByOnePlusW) {
  const std::vector<float> x{3, 3, 3, 3}, gain{1.5f, 1.0f, 0.5f, 0.0f};  // w = 0.5, 0, -0.5, -1
  for (const OpTable* ops : Backends()) {
    std::vector<float> out(4);
    ThreadPool pool(1);
    ops->grouped_rms_norm(test::ContextOf(pool), ConstMatrix(x.data(), 1, 4), gain, 1, 7.0f,
                          Matrix(out.data(), 1, 4));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], 3.0f / 4.0f * gain[i], 1e-6f);
  }
}

TEST(SpecNumerics, Num28_RotationPairsHalves) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6}, gain(6, 1.0f), inv_freq{1.0f, 0.5f};
  const std::int64_t position = 3;
  double mean = 91.0 / 6;
  for (const OpTable* ops : Backends()) {
    std::vector<float> out(6);
    ThreadPool pool(1);
    ops->head_norm_rope(test::ContextOf(pool), ConstMatrix(x.data(), 1, 6), 1, 6,
                        {gain, inv_freq, 0.0f}, {&position, 1}, Matrix(out.data(), 1, 6));
    const double r = 1 / std::sqrt(mean);
    EXPECT_NEAR(out[0], r * (1 * std::cos(3.0) - 3 * std::sin(3.0)), 1e-6);
    EXPECT_NEAR(out[2], r * (3 * std::cos(3.0) + 1 * std::sin(3.0)), 1e-6);
    EXPECT_NEAR(out[1], r * (2 * std::cos(1.5) - 4 * std::sin(1.5)), 1e-6);
    EXPECT_NEAR(out[3], r * (4 * std::cos(1.5) + 2 * std::sin(1.5)), 1e-6);
    EXPECT_NEAR(out[4], r * 5, 1e-6);
    EXPECT_NEAR(out[5], r * 6, 1e-6);
  }
}

TEST(SpecNumerics, Num29_HyperConnectionDividesBeforeItsGates) {
  // Two streams of one dimension, n = (1, 1): down = 4 gives d = silu(8 / 2), up = 0 gives g = 1/2.
  const std::vector<float> streams{5, 7}, down{4, 4}, up{0, 0}, inject{1, 1, -1, -1};
  const auto view = [](const std::vector<float>& w, std::int64_t rows) {
    return Weight{WeightFormat::kFp32, rows, static_cast<std::int64_t>(w.size()) / rows,
                  reinterpret_cast<const std::byte*>(w.data())};
  };
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  for (const OpTable* ops : Backends()) {
    for (const float up_value : {0.0f, 0.25f}) {
      const std::vector<float> up_row{up_value, up_value};
      const std::vector<float> gain{1, 1};
      const HyperConnectionWeights weights{gain, view(down, 1), view(up_row, 2), view(inject, 2)};
      std::vector<float> x(1), y(2);
      ThreadPool pool(1);
      ops->hyper_mix(test::ContextOf(pool), ConstMatrix(streams.data(), 1, 2), weights, 2, 0.0f,
                     Matrix(x.data(), 1, 1), Matrix(y.data(), 1, 2));
      const double d = 4 * sigmoid(4);
      EXPECT_NEAR(x[0], sigmoid(d * double{up_value}), 1e-6);
      EXPECT_NEAR(y[0], 2 * sigmoid(1), 1e-6);
      EXPECT_NEAR(y[1], 2 * sigmoid(-1), 1e-6);
    }
  }
}

TEST(SpecNumerics, Num30_RoutingTiesGoToTheLowerExpert) {
  for (const OpTable* ops : Backends()) {
    // Experts 1, 2 and 3 tie; two are chosen: 1 and 2, half each.
    MoeCase test({0, 1, 1, 1});
    EXPECT_NEAR(test.Run(*ops), (test.ExpertOutput(1) + test.ExpertOutput(2)) / 2, 1e-5f);
    MoeCase uneven({3, 1, 0, -1});
    const double p = 1 / (1 + std::exp(-2.0));
    EXPECT_NEAR(uneven.Run(*ops), p * uneven.ExpertOutput(0) + (1 - p) * uneven.ExpertOutput(1),
                1e-5f);
  }
}

TEST(SpecNumerics, Num31_BitsDependOnTheRowAlone) {
  for (const OpTable* ops : Backends()) {
    for (const int threads : {1, 2, 3}) {
      EXPECT_TRUE(LinearRowsAreIndependent(*ops, threads));
      EXPECT_TRUE(MoeRowsAreIndependent(*ops, threads));
      EXPECT_TRUE(AttentionRowsAreIndependent(*ops, threads));
      EXPECT_TRUE(GdnRowsAreIndependent(*ops, threads));
    }
  }
}

}  // namespace
}  // namespace kv8
