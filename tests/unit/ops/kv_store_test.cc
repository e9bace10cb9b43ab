// The K/V store: the SIMD form gives the oracle's bytes and counts, and touches nothing else.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "support/op_scratch.h"
#include "unit/ops/paged_sequence.h"
#include "unit/ops/random_values.h"
#include "unit/ops/simd_targets_test_util.h"

namespace kv8 {
namespace {

QsaConfig Config(int head_dim) {
  QsaConfig config;
  config.kv_heads = 2;
  config.head_dim = head_dim;
  config.index_dim = 8;
  config.selection_block_tokens = 4;
  return config;
}

/// Values over the whole range of floats, with every special one in it.
std::vector<float> AnyFloats(std::int64_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<float> values;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f,
                        -0.0f,
                        inf,
                        -inf,
                        448.0f,
                        464.0f,
                        465.0f,
                        -1e9f,
                        65504.0f,
                        65519.9f,
                        65520.0f,
                        0x1p-6f,
                        0x1p-9f,
                        0x1p-10f,
                        0x1.8p-10f,
                        0x1p-24f,
                        0x1p-25f,
                        0x1.8p-25f,
                        0x1p-149f,
                        std::bit_cast<float>(0x7FC00000u),
                        std::bit_cast<float>(0xFF812345u)}) {
    values.push_back(x);
  }
  while (static_cast<std::int64_t>(values.size()) < count) {
    // Exponents around both formats' ranges, any mantissa.
    const auto exponent = static_cast<std::uint32_t>(127 - 30 + engine() % 50);
    values.push_back(std::bit_cast<float>((static_cast<std::uint32_t>(engine()) & 0x807FFFFFu) |
                                          exponent << 23));
  }
  values.resize(static_cast<std::size_t>(count));
  return values;
}

struct Stored {
  PagedSequence sequence;
  SaturationCount saturation;
};

Stored StoreRows(KvStoreFn& store, KvDType dtype, int head_dim, std::int64_t rows, int threads) {
  const QsaConfig config = Config(head_dim);
  const std::int64_t first = 61;
  Stored result{PagedSequence(config, dtype, first + rows), {}};
  result.sequence.k_scale = 0.037f;
  result.sequence.v_scale = 1.5f;
  const std::int64_t width = std::int64_t{config.kv_heads} * head_dim;
  const std::vector<float> k = AnyFloats(rows * width, 1), v = AnyFloats(rows * width, 2);
  const QsaSlice slice = result.sequence.Slice(0, rows, first);
  ThreadPool pool(threads);
  store(test::ContextOf(pool), ConstMatrix(k.data(), rows, width),
        ConstMatrix(v.data(), rows, width), {&slice, 1}, &result.saturation);
  return result;
}

TEST(KvStore, SimdGivesTheOraclesBytes) {
  for (const KvDType dtype : {KvDType::kFp16, KvDType::kE4M3, KvDType::kFp32}) {
    for (const int head_dim : {64, 256, 20, 7}) {
      const Stored expected = StoreRows(reference::KvStore, dtype, head_dim, 70, 1);
      ForEachSimdTarget([&] {
        for (const int threads : {1, 3}) {
          const Stored actual = StoreRows(simd::KvStore, dtype, head_dim, 70, threads);
          EXPECT_EQ(actual.sequence.kv_pool, expected.sequence.kv_pool);
          EXPECT_EQ(actual.saturation.k, expected.saturation.k);
          EXPECT_EQ(actual.saturation.v, expected.saturation.v);
          EXPECT_EQ(actual.saturation.flushed_k, expected.saturation.flushed_k);
          EXPECT_EQ(actual.saturation.flushed_v, expected.saturation.flushed_v);
          EXPECT_EQ(expected.saturation.flushed_v > 0, dtype == KvDType::kE4M3);
        }
      });
    }
  }
}

TEST(KvStore, CountsClippedValuesOfE4M3Alone) {
  const QsaConfig config = Config(8);
  for (const KvDType dtype : {KvDType::kFp16, KvDType::kE4M3, KvDType::kFp32}) {
    for (KvStoreFn* store : {&reference::KvStore, &simd::KvStore}) {
      PagedSequence sequence(config, dtype, 1);
      sequence.k_scale = 0.5f;
      sequence.v_scale = 2.0f;
      std::vector<float> k(16, 224.0f), v(16, 896.0f);  // exactly 448 scales: not clipped
      k[3] = 224.1f, k[9] = -1e30f, k[10] = std::numeric_limits<float>::quiet_NaN();
      v[0] = std::numeric_limits<float>::infinity();
      const QsaSlice slice = sequence.Slice(0, 1, 0);
      ThreadPool pool(1);
      SaturationCount count{100, 200};
      (*store)(test::ContextOf(pool), ConstMatrix(k.data(), 1, 16), ConstMatrix(v.data(), 1, 16),
               {&slice, 1}, &count);
      EXPECT_EQ(count.k, dtype == KvDType::kE4M3 ? 102u : 100u);
      EXPECT_EQ(count.v, dtype == KvDType::kE4M3 ? 201u : 200u);
    }
  }
}

TEST(KvStore, LeavesOtherTokensAlone) {
  const Stored stored = StoreRows(simd::KvStore, KvDType::kE4M3, 64, 3, 1);
  PagedSequence copy = stored.sequence;
  for (std::int64_t head = 0; head < 2; ++head) {
    for (std::int64_t position = 61; position < 64; ++position) {
      for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
        std::memset(copy.Slice(0, 0, 0).kv.At(side, head, position), 0xFF, 64);
      }
    }
  }
  for (const std::byte byte : copy.kv_pool) ASSERT_EQ(byte, PagedSequence::kPoison);
}

}  // namespace
}  // namespace kv8
