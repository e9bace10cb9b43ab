// docs/spec/numerics.md up to NUM-20: codes, stores, attention, selection; ops run on every
// backend.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "numeric/e4m3.h"
#include "numeric/half.h"
#include "ops/op_table.h"
#include "spec/numerics_operands.h"

namespace kv8 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(SpecNumerics, Num1_DecodingIsExact) {
  for (int code = 0; code < 256; ++code) {
    const float value = DecodeE4M3(static_cast<std::uint8_t>(code));
    const int exponent = (code >> 3) & 0xF, mantissa = code & 7;
    if ((code & 0x7F) == 0x7F) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 0x7FC00000u);
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    EXPECT_EQ(std::abs(static_cast<double>(value)), magnitude);
    EXPECT_EQ(std::signbit(value), code >= 0x80);
  }
}

TEST(SpecNumerics, Num2_BothDecodingFormsAgree) {
  for (int code = 0; code < 256; ++code) {
    const auto half = static_cast<std::uint16_t>((code & 0x80) << 8 | (code & 0x7F) << 7);
    const float through_fp16 = DecodeFp16(half) * 256.0f;
    if ((code & 0x7F) == 0x7F) {
      EXPECT_EQ(std::abs(through_fp16), 480.0f);
    } else {
      EXPECT_EQ(through_fp16, DecodeE4M3(static_cast<std::uint8_t>(code)));
    }
  }
}

TEST(SpecNumerics, Num3_EncodingRoundsToNearestEven) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = DecodeE4M3(static_cast<std::uint8_t>(code));
    const float high = DecodeE4M3(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(int{EncodeE4M3(std::nextafter(middle, low))}, code);
    EXPECT_EQ(int{EncodeE4M3(std::nextafter(middle, high))}, code + 1);
    EXPECT_EQ(int{EncodeE4M3(middle)}, code % 2 == 0 ? code : code + 1);
  }
}

TEST(SpecNumerics, Num4_EncodingSaturates) {
  for (const float x : {448.0f, 464.0f, 465.0f, 1e9f, kInf}) {
    EXPECT_EQ(int{EncodeE4M3(x)}, 0x7E);
    EXPECT_EQ(int{EncodeE4M3(-x)}, 0xFE);
  }
}

TEST(SpecNumerics, Num5_NaNKeepsItsSign) {
  EXPECT_EQ(int{EncodeE4M3(kNaN)}, 0x7F);
  EXPECT_EQ(int{EncodeE4M3(-kNaN)}, 0xFF);
}

TEST(SpecNumerics, Num6_HalfFormatsRoundToNearestEven) {
  EXPECT_EQ(EncodeFp16(1.0f + 0x1p-11f), 0x3C00);
  EXPECT_EQ(EncodeFp16(1.0f + 0x1.8p-10f), 0x3C02);
  EXPECT_EQ(EncodeFp16(65520.0f), 0x7C00);
  EXPECT_EQ(EncodeFp16(0x1p-25f), 0);
  EXPECT_EQ(EncodeBf16(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(EncodeBf16(1.0f + 0x1.8p-7f), 0x3F82);
  EXPECT_EQ(EncodeFp16(-kNaN) & 0xFE00, 0xFE00);
  EXPECT_EQ(EncodeBf16(-kNaN) & 0xFFC0, 0xFFC0);
}

TEST(SpecNumerics, Num7_StoreDividesInFp32) {
  std::vector<float> x;
  for (int code = 1; code < 0x7E; ++code) {
    const float middle = (DecodeE4M3(static_cast<std::uint8_t>(code)) +
                          DecodeE4M3(static_cast<std::uint8_t>(code + 1))) /
                         2;
    x.push_back(middle * 0.037f);
  }
  x.resize(128, -1.0f);
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kE4M3, 1, {.head_dim = 128, .kv_heads = 1, .query_heads = 1});
    test.slice.kv.k_scale = 0.037f;
    test.slice.kv.v_scale = 3.0f;
    test.Store(*ops, x, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(int(test.slice.kv.At(KvSide::kKey, 0, 0)[i]), EncodeE4M3(x[i] / 0.037f));
      EXPECT_EQ(int(test.slice.kv.At(KvSide::kValue, 0, 0)[i]), EncodeE4M3(x[i] / 3.0f));
    }
  }
}

TEST(SpecNumerics, Num8_ClippedValuesAreCounted) {
  const std::vector<float> k{224.0f, -224.1f, kNaN, kInf, 0, 0, 0, 0};
  const std::vector<float> v{896.0f, 897.0f, 0, 0, 0, 0, 0, 0};
  for (const OpTable* ops : Backends()) {
    for (const KvDType dtype : {KvDType::kE4M3, KvDType::kFp16, KvDType::kFp32}) {
      AttentionCase test(dtype, 1, {.head_dim = 8, .kv_heads = 1, .query_heads = 1});
      test.slice.kv.k_scale = 0.5f;
      test.slice.kv.v_scale = 2.0f;
      const SaturationCount count = test.Store(*ops, k, v);
      EXPECT_EQ(count.k, dtype == KvDType::kE4M3 ? 2u : 0u);
      EXPECT_EQ(count.v, dtype == KvDType::kE4M3 ? 1u : 0u);
    }
  }
}

TEST(SpecNumerics, Num33_FlushedValuesAreCounted) {
  // 2^-10 scales are a tie, which goes to 0; so does what underflows in the division.
  const std::vector<float> k{0x1p-11f, -0x1p-11f, 0x1.000002p-11f, 0, -0.0f, kNaN, 1e-30f, 1};
  const std::vector<float> v{0x1p-9f, 0x1p-10f, 0, 0, 0, 0, 0, 1e-44f};
  for (const OpTable* ops : Backends()) {
    for (const KvDType dtype : {KvDType::kE4M3, KvDType::kFp16, KvDType::kFp32}) {
      AttentionCase test(dtype, 1, {.head_dim = 8, .kv_heads = 1, .query_heads = 1});
      test.slice.kv.k_scale = 0.5f;
      test.slice.kv.v_scale = 2.0f;
      const SaturationCount count = test.Store(*ops, k, v);
      EXPECT_EQ(count.flushed_k, dtype == KvDType::kE4M3 ? 3u : 0u);
      EXPECT_EQ(count.flushed_v, dtype == KvDType::kE4M3 ? 3u : 0u);
      test.slice.kv.k_scale = test.slice.kv.v_scale = 3e38f;
      const SaturationCount all = test.Store(*ops, k, v);
      EXPECT_EQ(all.flushed_k, dtype == KvDType::kE4M3 ? 5u : 0u);  // all but zeros and NaN
      EXPECT_EQ(all.k, 0u);
    }
  }
}

TEST(SpecNumerics, Num9_WiderCachesTakeNoScale) {
  const std::vector<float> x{1.0f / 3, -70000.0f, 1e-7f, 5.0f, 0, 0, 0, 0};
  for (const OpTable* ops : Backends()) {
    for (const KvDType dtype : {KvDType::kFp16, KvDType::kFp32}) {
      AttentionCase test(dtype, 1, {.head_dim = 8, .kv_heads = 1, .query_heads = 1});
      test.slice.kv.k_scale = test.slice.kv.v_scale = 0.5f;
      test.Store(*ops, x, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::byte* const at = test.slice.kv.At(KvSide::kValue, 0, 0);
        std::uint16_t half;
        float full;
        if (dtype == KvDType::kFp16) {
          std::memcpy(&half, at + 2 * i, 2);
          EXPECT_EQ(half, EncodeFp16(x[i]));
        } else {
          std::memcpy(&full, at + 4 * i, 4);
          EXPECT_EQ(full, x[i]);
        }
      }
    }
  }
}

TEST(SpecNumerics, Num10_IndexKeysAreFp16) {
  for (const OpTable* ops : Backends()) {
    AttentionCase fp16(KvDType::kFp16, 64), e4m3(KvDType::kE4M3, 64);
    fp16.StoreIndexKeys(*ops);
    e4m3.StoreIndexKeys(*ops);
    EXPECT_EQ(fp16.index_pool, e4m3.index_pool);
    EXPECT_EQ(e4m3.slice.index.layout.key_bytes(), 2 * e4m3.config.index_dim);
  }
}

TEST(SpecNumerics, Num11_ScalesFoldIntoFactors) {
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kE4M3, 50);
    test.slice.kv.k_scale = 0.05f;
    test.slice.kv.v_scale = 0.02f;
    test.FillRandom(*ops);
    const std::vector<float> base = test.Attend(*ops);
    test.slice.kv.v_scale *= 8;
    const std::vector<float> scaled = test.Attend(*ops);
    for (std::size_t i = 0; i < base.size(); ++i) EXPECT_EQ(scaled[i], base[i] * 8);
    test.slice.kv.v_scale /= 8;
    test.slice.kv.k_scale *= 2;
    for (float& value : test.q) value /= 2;
    EXPECT_EQ(test.Attend(*ops), base);
  }
}

TEST(SpecNumerics, Num12_ScoresAreFp32) {
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kE4M3, 50);
    std::fill(test.kv_pool.begin(), test.kv_pool.end(), std::byte{0x7E});
    std::fill(test.q.begin(), test.q.end(), 448.0f);
    for (const float value : test.Attend(*ops)) EXPECT_NEAR(value, 224.0f, 0.01f);  // gate 0: half
  }
}

TEST(SpecNumerics, Num13_UnselectedBytesDoNotMatter) {
  for (const OpTable* ops : Backends()) {
    for (const KvDType dtype : {KvDType::kE4M3, KvDType::kFp16, KvDType::kFp32}) {
      AttentionCase test(dtype, 50);
      test.FillRandom(*ops);
      test.Select({0, 3, 7});  // and the tail, tokens 48 and 49
      const std::vector<float> base = test.Attend(*ops);
      for (std::int64_t position = 0; position < 64; ++position) {
        const std::int64_t block = position / 4;
        if (block != 0 && block != 3 && block != 7 && position != 48 && position != 49) {
          test.Poison(position);
        }
      }
      EXPECT_EQ(test.Attend(*ops), base);
    }
  }
}

TEST(SpecNumerics, Num14_SelectedNaNsReachTheOutput) {
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kE4M3, 50);
    test.FillRandom(*ops);
    test.slice.kv.At(KvSide::kValue, 0, 20)[3] = std::byte{0x7F};
    test.slice.kv.At(KvSide::kKey, 1, 21)[5] = std::byte{0xFF};
    const std::vector<float> out = test.Attend(*ops);
    const auto dim = static_cast<std::size_t>(test.config.head_dim);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t head = i / dim;
      EXPECT_EQ(std::isnan(out[i]), head >= 2 || i % dim == 3) << i;  // heads 2, 3: K/V head 1
    }
  }
}

TEST(SpecNumerics, Num15_NoTokenGivesZeros) {
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kFp16, 48);
    test.FillRandom(*ops);
    test.Select({});
    for (const float value : test.Attend(*ops)) EXPECT_EQ(value, 0.0f);
  }
}

TEST(SpecNumerics, Num16_QueryHeadsShareConsecutively) {
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kFp32, 1);
    const auto dim = static_cast<std::size_t>(test.config.head_dim);
    std::vector<float> v(2 * dim, 1.0f);
    std::fill(v.begin() + static_cast<std::ptrdiff_t>(dim), v.end(), 3.0f);
    test.Store(*ops, v, v);
    const std::vector<float> out = test.Attend(*ops);
    for (std::size_t head = 0; head < 4; ++head) {
      EXPECT_FLOAT_EQ(out[head * dim], head < 2 ? 0.5f : 1.5f);
    }
  }
}

TEST(SpecNumerics, Num17_OpenTailIsSeenAndOwnBlockIsNotForced) {
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kFp32, 52);  // position 51 completes block 12
    test.FillRandom(*ops);
    test.Select({1});
    const std::vector<float> base = test.Attend(*ops);
    test.Poison(51);
    EXPECT_EQ(test.Attend(*ops), base);
    AttentionCase open(KvDType::kFp32, 51);
    open.FillRandom(*ops);
    open.Select({1});
    open.Poison(50);
    for (const float value : open.Attend(*ops)) EXPECT_TRUE(std::isnan(value));
    SelectionCase selection(64, 3);
    EXPECT_EQ(selection.Run(*ops, {9, 8, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}),
              (std::vector<std::int32_t>{0, 1, 2}));
  }
}

TEST(SpecNumerics, Num18_WithinTheBudgetEverythingIsSelected) {
  for (const OpTable* ops : Backends()) {
    SelectionCase selection(19, 4);
    selection.slice.index.table = {};  // reading a key would be out of bounds
    EXPECT_EQ(selection.Run(*ops, {}), (std::vector<std::int32_t>{0, 1, 2, 3}));
  }
}

TEST(SpecNumerics, Num19_BestBlocksTiesToTheLower) {
  for (const OpTable* ops : Backends()) {
    SelectionCase selection(40, 4);
    const auto run = [&](std::vector<float> scores) { return selection.Run(*ops, scores); };
    EXPECT_EQ(run({1, 5, 2, 5, 0, 9, 2, 2, 1, 0}), (std::vector<std::int32_t>{1, 2, 3, 5}));
    EXPECT_EQ(run({0, -3, 0, -1, 0, 0, 0, 7, 0, 0}), (std::vector<std::int32_t>{0, 1, 2, 7}));
    EXPECT_EQ(run({kNaN, kNaN, 1, kNaN, 0, 0, kNaN, -1, 0, 0}),
              (std::vector<std::int32_t>{2, 4, 5, 7}));
  }
}

TEST(SpecNumerics, Num20_BlockKeyIsRotatedAtItsFirstToken) {
  for (const OpTable* ops : Backends()) {
    AttentionCase test(KvDType::kFp32, 12);
    test.StoreIndexKeys(*ops);
    const int dim = test.config.index_dim;
    std::vector<float> mean(static_cast<std::size_t>(dim), 0.0f), expected = mean;
    for (int t = 8; t < 12; ++t) {
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] += test.raw[static_cast<std::size_t>(t * dim) + i] / 4;
      }
    }
    const std::int64_t position = 8;
    ThreadPool pool(1);
    ops->head_norm_rope(test::ContextOf(pool), ConstMatrix(mean.data(), 1, dim), 1, dim,
                        test.rope(), {&position, 1}, Matrix(expected.data(), 1, dim));
    for (int i = 0; i < dim; ++i) {
      float stored;
      std::memcpy(&stored, test.slice.index.At(2) + 4 * i, 4);
      EXPECT_NEAR(stored, expected[static_cast<std::size_t>(i)], 1e-5f);
    }
  }
}

}  // namespace
}  // namespace kv8
