// Block selection: exactly the oracle's choice where scores are exact, ties included.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/top_blocks.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "unit/ops/paged_sequence.h"
#include "unit/ops/random_values.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

QsaConfig Config(int index_heads, int index_dim, int budget) {
  QsaConfig config;
  config.kv_heads = 1;
  config.head_dim = 8;
  config.selection_block_tokens = 4;
  config.index_heads = index_heads;
  config.index_dim = index_dim;
  config.budget_selection_blocks = budget;
  return config;
}

struct Selected {
  std::vector<std::int32_t> blocks, counts;
  bool operator==(const Selected&) const = default;
};

/// The last `rows` rows of a sequence with the given keys and queries.
struct Case {
  Case(const QsaConfig& c, KvDType dtype, std::int64_t token_count, std::int64_t row_count,
       int limit)
      : config(c),
        sequence(c, dtype, token_count),
        tokens(token_count),
        rows(row_count),
        width(std::int64_t{c.index_heads} * c.index_dim),
        iq(RandomIntegers(rows * width, 5, limit)) {
    for (std::int64_t b = 0; b < tokens / c.selection_block_tokens; ++b) {
      const auto seed = static_cast<std::uint32_t>(1000 + b);
      sequence.PutIndexKey(b, RandomIntegers(c.index_dim, seed, limit).data());
    }
  }

  Selected Run(SelectBlocksFn& select, int threads = 1) { return Run(select, threads, 0, rows); }
  Selected Run(SelectBlocksFn& select, int threads, std::int64_t begin, std::int64_t count) {
    Selected result;
    result.blocks.assign(static_cast<std::size_t>(rows * config.budget_selection_blocks), -7);
    result.counts.assign(static_cast<std::size_t>(rows), -7);
    const QsaSlice slice = sequence.Slice(begin, count, tokens - rows + begin);
    ThreadPool pool(threads);
    select(test::ContextOf(pool), config, ConstMatrix(iq.data(), rows, width), {&slice, 1},
           {result.blocks, result.counts});
    return result;
  }

  QsaConfig config;
  PagedSequence sequence;
  std::int64_t tokens, rows, width;
  std::vector<float> iq;
};

TEST(SelectBlocks, ChoosesTheOraclesBlocks) {
  for (const QsaConfig& config : {Config(4, 64, 16), Config(4, 128, 5), Config(4, 20, 7),
                                  Config(3, 7, 4), Config(6, 16, 1)}) {
    for (const KvDType dtype : {KvDType::kFp16, KvDType::kFp32}) {
      for (const int limit : {1, 8}) {  // 1: ties everywhere
        Case test(config, dtype, 407, 21, limit);
        const Selected expected = test.Run(reference::SelectBlocks);
        ForEachSimdTarget([&] {
          for (const int threads : {1, 2, 3}) {
            EXPECT_EQ(test.Run(simd::SelectBlocks, threads), expected);
          }
        });
      }
    }
  }
}

TEST(SelectBlocks, OneRowAloneChoosesTheSame) {
  Case test(Config(4, 64, 16), KvDType::kFp16, 4001, 40, 8);
  // Odd values, so that scores are rounded: the same bits or the choice would waver.
  const std::vector<float> noise = RandomValues(test.rows * test.width, 9);
  test.iq = noise;
  const Selected all = test.Run(simd::SelectBlocks, 2);
  for (const std::int64_t t : {0, 13, 39}) {
    for (const int threads : {1, 2, 3}) {
      const Selected one = test.Run(simd::SelectBlocks, threads, t, 1);
      const auto first = static_cast<std::ptrdiff_t>(t * test.config.budget_selection_blocks);
      EXPECT_TRUE(std::equal(one.blocks.begin() + first,
                             one.blocks.begin() + first + test.config.budget_selection_blocks,
                             all.blocks.begin() + first));
    }
  }
}

TEST(SelectBlocks, TiesGoToTheLowerBlock) {
  Case test(Config(4, 16, 6), KvDType::kFp16, 200, 1, 3);
  const std::vector<float> zero(16, 0.0f), one(16, 1.0f);
  std::fill(test.iq.begin(), test.iq.end(), 1.0f);
  for (std::int64_t b = 0; b < 50; ++b) test.sequence.PutIndexKey(b, zero.data());
  for (const std::int64_t b : {40, 31}) test.sequence.PutIndexKey(b, one.data());
  for (SelectBlocksFn* select : {&reference::SelectBlocks, &simd::SelectBlocks}) {
    EXPECT_EQ(test.Run(*select).blocks, (std::vector<std::int32_t>{0, 1, 2, 3, 31, 40}));
  }
}

TEST(SelectBlocks, NegativeScoresCountAsZero) {
  Case test(Config(4, 16, 2), KvDType::kFp16, 40, 1, 3);
  std::fill(test.iq.begin(), test.iq.end(), 1.0f);
  const std::vector<float> negative(16, -5.0f), zero(16, 0.0f);
  for (std::int64_t b = 0; b < 10; ++b) {
    test.sequence.PutIndexKey(b, b < 3 ? negative.data() : zero.data());
  }
  for (SelectBlocksFn* select : {&reference::SelectBlocks, &simd::SelectBlocks}) {
    EXPECT_EQ(test.Run(*select).blocks, (std::vector<std::int32_t>{0, 1}));
  }
}

TEST(SelectBlocks, NaNRanksLast) {
  Case test(Config(4, 16, 6), KvDType::kFp16, 400, 3, 8);
  std::vector<float> nan(16, 1.0f);
  nan[9] = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t b = 0; b < 90; ++b) test.sequence.PutIndexKey(b, nan.data());
  const Selected expected = test.Run(reference::SelectBlocks);
  ForEachSimdTarget([&] { EXPECT_EQ(test.Run(simd::SelectBlocks), expected); });
  EXPECT_GE(expected.blocks[0], 90);
  for (std::int64_t b = 90; b < 98; ++b) test.sequence.PutIndexKey(b, nan.data());
  const Selected nearly_all = test.Run(reference::SelectBlocks);
  ForEachSimdTarget([&] { EXPECT_EQ(test.Run(simd::SelectBlocks), nearly_all); });
  EXPECT_EQ(nearly_all.blocks[0], 0);
}

TEST(SelectBlocks, WithinTheBudgetReadsNoKey) {
  Case test(Config(4, 64, 16), KvDType::kFp16, 67, 67, 8);
  test.sequence.table.clear();  // any access to a key would be out of bounds
  for (SelectBlocksFn* select : {&reference::SelectBlocks, &simd::SelectBlocks}) {
    const Selected selected = test.Run(*select, 2);
    for (std::int32_t t = 0; t < 67; ++t) {
      const auto row = static_cast<std::size_t>(t);
      ASSERT_EQ(selected.counts[row], (t + 1) / 4);
      for (std::int32_t i = 0; i < selected.counts[row]; ++i) {
        ASSERT_EQ(selected.blocks[row * 16 + static_cast<std::size_t>(i)], i);
      }
    }
  }
}

/// The best of `scores` by a plain sort.
std::vector<std::int32_t> SortedBest(const std::vector<float>& scores, std::size_t budget) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(budget, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

TEST(TopBlocks, KeepsTheBestInAnyOrderOfArrival) {
  std::mt19937 engine(1);
  for (const std::size_t budget : {1u, 2u, 64u, 512u}) {
    for (const int kind : {0, 1, 2, 3}) {
      std::vector<float> scores(3000);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        scores[i] = kind == 0   ? static_cast<float>(i)
                    : kind == 1 ? static_cast<float>(scores.size() - i)
                    : kind == 2 ? static_cast<float>(engine() % 5)
                                : static_cast<float>(engine() % 3) - 1.0f;
      }
      if (kind == 2) scores[77] = std::numeric_limits<float>::infinity();
      std::vector<std::int64_t> storage(2 * budget);
      TopBlocks top(storage, static_cast<std::int64_t>(budget));
      for (std::size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] > top.threshold()) top.Offer(scores[i], static_cast<std::int32_t>(i));
      }
      std::vector<std::int32_t> best(2 * budget);
      best.resize(static_cast<std::size_t>(top.Take(best.data())));
      EXPECT_EQ(best, SortedBest(scores, budget)) << budget << " " << kind;
    }
  }
}

/// One group's buffers are the calling thread's, those of several each thread's.
TEST(SelectBlocks, TakesThePlannedScratchExactly) {
  const QsaConfig config = Config(4, 20, 7);
  Case one(config, KvDType::kFp16, 1200, 24, 8), two(config, KvDType::kFp16, 1200, 48, 8);
  const OpSizes sizes{.rows = 48, .sequences = 1, .sequence_selection_blocks = 300, .qsa = config};
  test::ExpectExactScratch(simd::SelectBlocksScratch(sizes), [&] {
    one.Run(simd::SelectBlocks);
    two.Run(simd::SelectBlocks);
  });
}

/// Whatever the rows and the context, no call takes more than was planned for the largest.
TEST(SelectBlocks, NeverTakesMoreThanPlanned) {
  const QsaConfig config = Config(1, 4, 2);
  constexpr std::int64_t kTokens = 70'000;
  Case test(config, KvDType::kFp16, kTokens, 30, 8);
  const OpSizes sizes{
      .rows = 30, .sequences = 1, .sequence_selection_blocks = kTokens / 4, .qsa = config};
  const ScratchSize planned = simd::SelectBlocksScratch(sizes);
  for (const std::int64_t tokens : {40l, 16'000l, 17'000l, 40'000l, kTokens}) {
    test.tokens = tokens;
    for (const std::int64_t count : {1, 6, 7, 13, 24, 25, 30}) {
      test::RunWithin(planned, [&] { test.Run(simd::SelectBlocks, 1, 0, count); });
    }
  }
}

}  // namespace
}  // namespace kv8
