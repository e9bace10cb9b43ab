// Mixture of experts against its oracle, and its independence of the batch.
#include <gtest/gtest.h>

#include <limits>

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

struct Case {
  Case(const MoeConfig& shape, std::int64_t hidden, std::int64_t row_count,
       WeightFormat format = WeightFormat::kBf16)
      : config(shape),
        dim(hidden),
        rows(row_count),
        router(format, config.experts, dim, 1),
        gate_up(format, 2 * config.experts * config.expert_dim, dim, 2),
        down(format, config.experts * dim, config.expert_dim, 3),
        shared_gate_proj(format, config.shared_expert_dim, dim, 4),
        shared_up_proj(format, config.shared_expert_dim, dim, 5),
        shared_down_proj(format, dim, config.shared_expert_dim, 6),
        shared_gate(format, 1, dim, 7),
        x(RandomValues(rows * dim, 8, 2.0f)) {}

  std::vector<float> Run(MoeFn& moe, int threads, std::int64_t first = 0) const {
    std::vector<float> out(x.size());
    ThreadPool pool(threads);
    const MoeWeights weights{
        router.view(),
        ExpertsOf(gate_up.view(), config.experts, 0, config.expert_dim),
        ExpertsOf(gate_up.view(), config.experts, config.expert_dim, config.expert_dim),
        ExpertsOf(down.view(), config.experts, 0, dim),
        shared_gate_proj.view(),
        shared_up_proj.view(),
        shared_down_proj.view(),
        shared_gate.view()};
    moe(test::ContextOf(pool), config, weights,
        ConstMatrix(x.data(), rows, dim).Rows(first, rows - first),
        Matrix(out.data(), rows, dim).Rows(first, rows - first));
    return out;
  }

  MoeConfig config;
  std::int64_t dim, rows;
  StoredWeight router, gate_up, down, shared_gate_proj, shared_up_proj, shared_down_proj,
      shared_gate;
  std::vector<float> x;
};

constexpr MoeConfig kTiny{16, 4, 64, 64};

TEST(Moe, MatchesTheOracle) {
  for (const WeightFormat format : kPlainFormats) {
    for (const std::int64_t rows : {1, 2, 7, 67}) {
      for (const MoeConfig& config :
           {kTiny, MoeConfig{40, 10, 24, 17}, MoeConfig{3, 3, 5, 9}, MoeConfig{5, 1, 8, 8}}) {
        const Case test(config, config.experts == 16 ? 192 : 37, rows, format);
        const std::vector<float> expected = test.Run(reference::Moe, 1);
        ForEachSimdTarget([&] { ExpectClose(test.Run(simd::Moe, 1), expected, tolerance::kMoe); });
      }
    }
  }
}

TEST(Moe, BitsDependOnTheRowAlone) {
  const Case test(kTiny, 192, 130);
  ForEachSimdTarget([&] {
    const std::vector<float> all = test.Run(simd::Moe, 1);
    for (const int threads : {2, 3}) ExpectSameBits(test.Run(simd::Moe, threads), all);
    for (const std::int64_t count : {1, 2, 17, 64, 65}) {
      const std::vector<float> some = test.Run(simd::Moe, 2, test.rows - count);
      const std::size_t at = static_cast<std::size_t>((test.rows - count) * test.dim);
      ExpectSameBits(std::span(some).subspan(at), std::span(all).subspan(at));
    }
  });
}

/// As many experts as the released model has, most of them without a row.
TEST(Moe, ManyExperts) {
  for (const std::int64_t rows : {1, 30}) {
    const Case test({512, 10, 8, 8}, 24, rows);
    const std::vector<float> expected = test.Run(reference::Moe, 1);
    ForEachSimdTarget([&] { ExpectClose(test.Run(simd::Moe, 2), expected, tolerance::kMoe); });
  }
}

/// Equal router rows give equal logits: the lower experts must win, on every path.
TEST(Moe, TiesGoToTheLowerExpert) {
  Case test(kTiny, 32, 5);
  std::vector<float> row = RandomValues(32, 11);
  std::vector<float> router;
  for (int e = 0; e < kTiny.experts; ++e) router.insert(router.end(), row.begin(), row.end());
  test.router = StoredWeight(WeightFormat::kBf16, kTiny.experts, 32, router);
  const std::vector<float> tied = test.Run(simd::Moe, 1);
  ExpectClose(tied, test.Run(reference::Moe, 1), tolerance::kMoe);
  std::fill(router.begin() + 4 * 32, router.end(),
            0.0f);                        // experts 0..3 keep the tie to themselves
  for (std::int64_t t = 0; t < 5; ++t) {  // with a positive logit, above the others' 0
    std::copy(row.begin(), row.end(), test.x.begin() + t * 32);
  }
  test.router = StoredWeight(WeightFormat::kBf16, kTiny.experts, 32, router);
  const std::vector<float> lowest = test.Run(simd::Moe, 1);
  router.clear();
  for (int e = 0; e < kTiny.experts; ++e) router.insert(router.end(), row.begin(), row.end());
  test.router = StoredWeight(WeightFormat::kBf16, kTiny.experts, 32, router);
  ExpectSameBits(test.Run(simd::Moe, 1), lowest);
}

TEST(Moe, NaNsStayInTheirRow) {
  Case test(kTiny, 32, 20);
  test.x[3 * 32 + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> out = test.Run(simd::Moe, 2);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 32 == 3) << i;
}

/// Logits of some 1e6: the best expert takes all, and nothing overflows on the way.
TEST(Moe, LargeRouterLogits) {
  Case test(kTiny, 32, 6);
  for (float& value : test.x) value *= 1e6f;
  const auto run = [&](MoeFn& moe) {
    std::vector<float> out = test.Run(moe, 1);
    for (float& value : out) value *= 1e-12f;  // gate times up
    return out;
  };
  const std::vector<float> expected = run(reference::Moe);
  ForEachSimdTarget([&] { ExpectClose(run(simd::Moe), expected, tolerance::kMoe); });
}

/// Most for all threads with the most rows, most for one where an expert's rows are packed.
TEST(Moe, TakesThePlannedScratchExactly) {
  const MoeConfig config{1, 1, 24, 16};
  const Case many(config, 40, 67), few(config, 40, 28);
  test::ExpectExactScratch(simd::MoeScratch({.rows = 67, .hidden = 40, .moe = config}), [&] {
    many.Run(simd::Moe, 1);
    few.Run(simd::Moe, 1);
  });
}

}  // namespace
}  // namespace kv8
