// The index store against its oracle, for any cut of a sequence into calls.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "tensor/rope_frequencies.h"
#include "unit/ops/paged_sequence.h"
#include "unit/ops/random_values.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

QsaConfig Config(int index_dim, int selection_block_tokens) {
  QsaConfig config;
  config.kv_heads = 1;
  config.head_dim = 8;
  config.selection_block_tokens = selection_block_tokens;
  config.index_dim = index_dim;
  return config;
}

/// Stores `tokens` rows in calls of `step`, from position 0.
PagedSequence StoreTokens(IndexStoreFn& store, const QsaConfig& config, KvDType dtype,
                          std::int64_t tokens, std::int64_t step) {
  PagedSequence sequence(config, dtype, tokens);
  const std::vector<float> raw = RandomValues(tokens * config.index_dim, 11);
  const std::vector<float> gain = RandomValues(config.index_dim, 12);
  const std::vector<float> inv_freq = RopeFrequencies(1e6, 4);
  const HeadNormRope rope{gain, inv_freq, 1e-6f};
  ThreadPool pool(2);
  for (std::int64_t t = 0; t < tokens; t += step) {
    const QsaSlice slice = sequence.Slice(t, std::min(step, tokens - t), t);
    store(test::ContextOf(pool), config, ConstMatrix(raw.data(), tokens, config.index_dim), rope,
          {&slice, 1});
  }
  return sequence;
}

TEST(IndexStore, MatchesTheOracle) {
  for (const QsaConfig& config : {Config(64, 4), Config(20, 4), Config(128, 16), Config(8, 2)}) {
    for (const KvDType dtype : {KvDType::kFp16, KvDType::kFp32}) {
      PagedSequence expected = StoreTokens(reference::IndexStore, config, dtype, 203, 203);
      ForEachSimdTarget([&] {
        PagedSequence actual = StoreTokens(simd::IndexStore, config, dtype, 203, 203);
        EXPECT_EQ(actual.ring, expected.ring);
        const KvDType stored = dtype == KvDType::kFp32 ? dtype : KvDType::kFp16;
        for (std::int64_t b = 0; b < 203 / config.selection_block_tokens; ++b) {
          const std::byte* const a = actual.Slice(0, 0, 0).index.At(b);
          const std::byte* const e = expected.Slice(0, 0, 0).index.At(b);
          for (std::int64_t i = 0; i < config.index_dim; ++i) {
            ASSERT_NEAR(LoadKvElement(stored, a, i), LoadKvElement(stored, e, i),
                        tolerance::kIndexKey);
          }
        }
      });
    }
  }
}

TEST(IndexStore, BytesDoNotDependOnTheCut) {
  for (IndexStoreFn* store : {&reference::IndexStore, &simd::IndexStore}) {
    const PagedSequence whole = StoreTokens(*store, Config(64, 4), KvDType::kFp16, 130, 130);
    for (const std::int64_t step : {1, 3, 4, 64}) {
      const PagedSequence cut = StoreTokens(*store, Config(64, 4), KvDType::kFp16, 130, step);
      EXPECT_EQ(cut.index_pool, whole.index_pool) << step;
      EXPECT_EQ(cut.ring, whole.ring) << step;
    }
  }
}

TEST(IndexStore, OpenBlockIsNotStored) {
  const QsaConfig config = Config(8, 4);
  PagedSequence sequence = StoreTokens(simd::IndexStore, config, KvDType::kFp16, 7, 7);
  const std::byte* const open = sequence.Slice(0, 0, 0).index.At(1);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(open[i], PagedSequence::kPoison);
}

/// The first row completes a block, and every fourth after it.
TEST(IndexStore, TakesThePlannedScratchExactly) {
  const QsaConfig config = Config(20, 4);
  PagedSequence sequence(config, KvDType::kFp16, 70);
  const std::vector<float> raw = RandomValues(67 * 20, 11), gain(20, 1.0f);
  const std::vector<float> inv_freq = RopeFrequencies(1e6, 4);
  const QsaSlice slice = sequence.Slice(0, 67, 3);
  OpSizes sizes{.rows = 67, .sequences = 1, .qsa = config};
  sizes.qsa.rotary_dim = 4;
  test::ExpectExactScratch(simd::IndexStoreScratch(sizes), [&] {
    ThreadPool pool(1);
    simd::IndexStore(test::ContextOf(pool), config, ConstMatrix(raw.data(), 67, 20),
                     {gain, inv_freq, 1e-6f}, {&slice, 1});
  });
}

}  // namespace
}  // namespace kv8
