// Sparse attention against its oracle, and the promises that no oracle checks: bits that do not
// depend on the batch, bytes that are never read.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/cpu/reference.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"
#include "support/exact_scratch.h"
#include "support/op_scratch.h"
#include "support/tolerance.h"
#include "unit/ops/paged_sequence.h"
#include "unit/ops/random_values.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

struct Shape {
  int query_heads, kv_heads, head_dim, selection_block_tokens, budget;
};

QsaConfig Config(const Shape& shape) {
  QsaConfig config;
  config.query_heads = shape.query_heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.index_dim = 8;
  config.selection_block_tokens = shape.selection_block_tokens;
  config.budget_selection_blocks = shape.budget;
  return config;
}

/// Rows at the end of a sequence of `tokens`, each with its own selection; only selected tokens
/// and open tails of those rows are stored, all other bytes are poison.
struct Case {
  Case(const Shape& shape, KvDType dtype, std::int64_t tokens, std::int64_t row_count,
       std::uint32_t seed = 7)
      : config(Config(shape)),
        sequence(config, dtype, tokens),
        rows(row_count),
        first(tokens - row_count),
        width(std::int64_t{config.query_heads} * config.head_dim),
        q(RandomValues(rows * width, seed, 2.0f)),
        gate(RandomValues(rows * 2 * width, seed + 1)),
        blocks(static_cast<std::size_t>(rows * config.budget_selection_blocks), -1),
        counts(static_cast<std::size_t>(rows)) {
    sequence.k_scale = dtype == KvDType::kE4M3 ? 0.03125f : 1.0f;
    sequence.v_scale = dtype == KvDType::kE4M3 ? 0.0171f : 1.0f;
    std::mt19937 engine(seed);
    for (std::int64_t t = 0; t < rows; ++t) {
      const std::int64_t complete = (first + t + 1) / config.selection_block_tokens;
      const std::int64_t count = std::min<std::int64_t>(complete, config.budget_selection_blocks);
      std::vector<std::int32_t> all;
      for (std::int32_t b = 0; b < complete; ++b) all.push_back(b);
      std::shuffle(all.begin(), all.end(), engine);
      std::sort(all.begin(), all.begin() + count);
      std::copy_n(all.begin(), count, blocks.begin() + t * config.budget_selection_blocks);
      counts[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(count);
      for (std::int64_t i = 0; i < count; ++i) {
        for (int j = 0; j < config.selection_block_tokens; ++j) {
          PutToken(
              std::int64_t{all[static_cast<std::size_t>(i)]} * config.selection_block_tokens + j,
              seed);
        }
      }
      for (std::int64_t p = complete * config.selection_block_tokens; p <= first + t; ++p)
        PutToken(p, seed);
    }
  }

  void PutToken(std::int64_t position, std::uint32_t seed) {
    for (int head = 0; head < config.kv_heads; ++head) {
      for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
        const auto tag = static_cast<std::uint32_t>(position * 16 + head * 2 + int(side));
        sequence.Put(side, head, position, RandomValues(config.head_dim, seed * 7919 + tag).data());
      }
    }
  }

  /// Rows [begin, begin + count) in one call.
  std::vector<float> Run(SparseAttentionFn& attention, int threads, std::int64_t begin,
                         std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(rows * width), -1.0f);
    const QsaSlice slice = sequence.Slice(begin, count, first + begin);
    ThreadPool pool(threads);
    // Gates interleaved with something else, as in the projection's output.
    attention(test::ContextOf(pool), config, ConstMatrix(q.data(), rows, width),
              ConstMatrix(gate.data() + config.head_dim, rows, width, 2 * width),
              2 * config.head_dim, {&slice, 1}, {blocks, counts}, Matrix(out.data(), rows, width));
    return out;
  }
  std::vector<float> Run(SparseAttentionFn& attention, int threads = 1) {
    return Run(attention, threads, 0, rows);
  }

  QsaConfig config;
  PagedSequence sequence;
  std::int64_t rows, first, width;
  std::vector<float> q, gate;
  std::vector<std::int32_t> blocks, counts;
};

void ExpectClose(const std::vector<float>& actual, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << i;
    if (std::isnan(expected[i])) continue;
    ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b, std::size_t begin,
                    std::size_t count) {
  ASSERT_EQ(std::memcmp(a.data() + begin, b.data() + begin, count * sizeof(float)), 0) << begin;
}

constexpr KvDType kTypes[] = {KvDType::kFp16, KvDType::kE4M3, KvDType::kFp32};

TEST(SparseAttention, MatchesTheOracle) {
  for (const Shape& shape : {Shape{12, 2, 64, 4, 64}, Shape{24, 2, 256, 4, 20},
                             Shape{7, 1, 20, 4, 5}, Shape{2, 2, 7, 2, 9}, Shape{5, 5, 40, 16, 3}}) {
    for (const KvDType dtype : kTypes) {
      for (const std::int64_t tokens : {1, 4, 67, 300}) {
        Case test(shape, dtype, tokens, std::min<std::int64_t>(tokens, 6));
        const std::vector<float> expected = test.Run(reference::SparseAttention);
        ForEachSimdTarget(
            [&] { ExpectClose(test.Run(simd::SparseAttention), expected, tolerance::kAttention); });
      }
    }
  }
}

TEST(SparseAttention, BitsDependOnTheRowAlone) {
  for (const KvDType dtype : kTypes) {
    Case test({12, 2, 64, 4, 16}, dtype, 200, 65);
    const std::vector<float> all = test.Run(simd::SparseAttention, 1);
    for (const int threads : {2, 3}) {
      const std::vector<float> other = test.Run(simd::SparseAttention, threads);
      ExpectSameBits(all, other, 0, all.size());
    }
    for (const std::int64_t t : {0, 1, 17, 64}) {
      const std::vector<float> one = test.Run(simd::SparseAttention, 2, t, 1);
      ExpectSameBits(all, one, static_cast<std::size_t>(t * test.width),
                     static_cast<std::size_t>(test.width));
    }
  }
}

/// Everything that Case did not store is NaN, so a finite result proves that it was not used; the
/// same bits over another filling prove that it was not even multiplied by zero.
TEST(SparseAttention, UnselectedBytesDoNotMatter) {
  for (const KvDType dtype : kTypes) {
    Case poisoned({12, 2, 64, 4, 8}, dtype, 90, 7);
    const std::vector<float> out = poisoned.Run(simd::SparseAttention);
    for (const float value : out) ASSERT_TRUE(std::isfinite(value));
    for (std::byte& byte : poisoned.sequence.kv_pool) {
      if (byte == PagedSequence::kPoison) byte = std::byte{0x7F};
    }
    if (dtype != KvDType::kE4M3) continue;  // stored values of the others may contain 0xFF
    ExpectSameBits(poisoned.Run(simd::SparseAttention), out, 0, out.size());
  }
}

TEST(SparseAttention, SelectedNaNsReachTheOutput) {
  for (const KvDType dtype : kTypes) {
    Case test({12, 2, 64, 4, 8}, dtype, 70, 3);
    std::vector<float> value(64, 0.5f);
    value[5] = std::numeric_limits<float>::quiet_NaN();
    test.sequence.Put(KvSide::kValue, 1, test.first,
                      value.data());  // in no block yet: row 0's tail
    test.sequence.Put(KvSide::kKey, 0, test.first + 1, value.data());
    const std::vector<float> expected = test.Run(reference::SparseAttention);
    ForEachSimdTarget(
        [&] { ExpectClose(test.Run(simd::SparseAttention), expected, tolerance::kAttention); });
    EXPECT_TRUE(std::isnan(expected[6 * 64 + 5]));
    EXPECT_FALSE(std::isnan(expected[6 * 64 + 6]));
  }
}

/// 448 * 448 * 64 is far beyond FP16: the dot must be FP32, and equal scores give the mean.
TEST(SparseAttention, LargestCodesStayFinite) {
  Case test({6, 1, 64, 4, 16}, KvDType::kE4M3, 40, 1);
  for (std::byte& byte : test.sequence.kv_pool) byte = std::byte{kE4M3MaxCode};
  std::fill(test.q.begin(), test.q.end(), 448.0f);
  std::fill(test.gate.begin(), test.gate.end(), 100.0f);
  test.sequence.k_scale = 1.0f;
  test.sequence.v_scale = 0.25f;
  ForEachSimdTarget([&] {
    for (const float value : test.Run(simd::SparseAttention)) {
      EXPECT_NEAR(value, 112.0f, 112.0f * tolerance::kAttention);
    }
  });
}

TEST(SparseAttention, NoTokenGivesZeros) {
  Case test({6, 1, 64, 4, 16}, KvDType::kE4M3, 40, 1);  // position 39: no open tail
  test.counts[0] = 0;
  for (SparseAttentionFn* attention : {&reference::SparseAttention, &simd::SparseAttention}) {
    for (const float value : test.Run(*attention)) EXPECT_EQ(value, 0.0f);
  }
}

TEST(SparseAttention, PageIdsPastFourGigabytes) {
  Case test({12, 2, 64, 4, 8}, KvDType::kE4M3, 60, 2);
  const std::vector<float> expected = test.Run(simd::SparseAttention);
  constexpr std::int64_t kFar = 300'000;  // times 16 KiB
  QsaSlice slice = test.sequence.Slice(0, 2, test.first);
  slice.kv.pool -= kFar * test.sequence.kv_layout.page_bytes();
  for (PageId& page : test.sequence.table) {
    page = static_cast<PageId>(static_cast<std::int64_t>(page) + kFar);
  }
  std::vector<float> out(expected.size());
  ThreadPool pool(1);
  simd::SparseAttention(test::ContextOf(pool), test.config,
                        ConstMatrix(test.q.data(), 2, test.width),
                        ConstMatrix(test.gate.data() + 64, 2, test.width, 2 * test.width), 128,
                        {&slice, 1}, {test.blocks, test.counts}, Matrix(out.data(), 2, test.width));
  ExpectSameBits(out, expected, 0, out.size());
}

/// A full budget and an open block that lacks one token.
TEST(SparseAttention, TakesThePlannedScratchExactly) {
  Case test({4, 2, 20, 4, 5}, KvDType::kE4M3, 203, 1);
  test::ExpectExactScratch(simd::SparseAttentionScratch({.qsa = test.config}),
                           [&] { test.Run(simd::SparseAttention); });
}

}  // namespace
}  // namespace kv8
