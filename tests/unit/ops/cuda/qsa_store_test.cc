// The one pass over a QSA layer's projections against the oracles of its parts.
#include <cmath>
#include <limits>

#include "ops/cpu/reference.h"
#include "support/tolerance.h"
#include "tensor/rope_frequencies.h"
#include "unit/ops/cuda/paged_batch.h"

namespace kv8::cuda {
namespace {

using CudaQsaStore = CudaTest;

QsaConfig Config(int query_heads, int kv_heads, int head_dim, int rotary_dim, int index_dim,
                 int selection_block_tokens) {
  QsaConfig config;
  config.query_heads = query_heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  config.rotary_dim = rotary_dim;
  config.rope_theta = 1e7;
  config.index_heads = 4;
  config.index_dim = index_dim;
  config.selection_block_tokens = selection_block_tokens;
  return config;
}

/// 1 + w of a norm.
std::vector<float> Gain(int dim, std::uint32_t seed) {
  std::vector<float> gain = RandomValues(dim, seed, 0.2f);
  for (float& g : gain) g += 1.0f;
  return gain;
}

struct Case {
  Case(const QsaConfig& config, KvDType dtype, std::vector<RowsOf> sequences)
      : batch(config, dtype, std::move(sequences)),
        query_gate(Operand(2 * config.query_heads * config.head_dim, 1)),
        key(Operand(config.kv_heads * config.head_dim, 2)),
        value(Operand(config.kv_heads * config.head_dim, 3)),
        index_qk(Operand((config.index_heads + 1) * config.index_dim, 4)),
        q_gain(Gain(config.head_dim, 5)),
        k_gain(Gain(config.head_dim, 6)),
        index_q_gain(Gain(config.index_dim, 7)),
        index_k_gain(Gain(config.index_dim, 8)),
        inv_freq(RopeFrequencies(config.rope_theta, config.rotary_dim)) {
    // Raw keys of the tokens before, for blocks that they share with the rows.
    batch.rings = RandomValues(static_cast<std::int64_t>(batch.rings.size()), 9);
  }
  std::vector<float> Operand(std::int64_t width, std::uint32_t seed) const {
    return RandomValues(batch.rows() * width, seed, 1.5f);
  }

  struct Outputs {
    std::vector<float> query, index_query, rings;
    std::vector<std::byte> kv_pool, index_pool;
    SaturationCount saturation;
  };

  Outputs Expected() {
    const QsaConfig& c = batch.config;
    const std::int64_t rows = batch.rows();
    ThreadPool pool(1);
    const auto norm_rope = [&](const std::vector<float>& x, std::int64_t row_width, int heads,
                               std::int64_t head_stride, const std::vector<float>& gain) {
      const auto dim = static_cast<std::int64_t>(gain.size());
      std::vector<float> out(static_cast<std::size_t>(rows * heads * dim));
      reference::ApplyHeadNormRope({pool}, ConstMatrix(x.data(), rows, row_width), heads,
                                   head_stride, {gain, inv_freq, kEps}, batch.row_position,
                                   Matrix(out.data(), rows, heads * dim));
      return out;
    };
    Outputs out;
    const std::int64_t width = std::int64_t{c.kv_heads} * c.head_dim;
    out.query = norm_rope(query_gate, 2LL * c.query_heads * c.head_dim, c.query_heads,
                          2 * c.head_dim, q_gain);
    const std::vector<float> k = norm_rope(key, width, c.kv_heads, c.head_dim, k_gain);
    const std::int64_t index_width = std::int64_t{c.index_heads + 1} * c.index_dim;
    out.index_query = norm_rope(index_qk, index_width, c.index_heads, c.index_dim, index_q_gain);
    const std::vector<QsaSlice> slices = batch.Slices();
    reference::KvStore({pool}, ConstMatrix(k.data(), rows, width),
                       ConstMatrix(value.data(), rows, width), slices, &out.saturation);
    const ConstMatrix all(index_qk.data(), rows, index_width);
    reference::IndexStore({pool}, c, all.Cols(index_width - c.index_dim, c.index_dim),
                          {index_k_gain, inv_freq, kEps}, slices);
    out.kv_pool = batch.kv_pool, out.index_pool = batch.index_pool, out.rings = batch.rings;
    return out;
  }

  static constexpr float kEps = 1e-6f;
  PagedBatch batch;
  std::vector<float> query_gate, key, value, index_qk;
  std::vector<float> q_gain, k_gain, index_q_gain, index_k_gain, inv_freq;
};

/// A case's arrays on the device; outputs start as NaN.
struct Operands {
  Operands(Device& device, DeviceStream& stream, const Case& of)
      : test(of),
        pages(device, stream, of.batch),
        query_gate(device, stream, of.query_gate),
        key(device, stream, of.key),
        value(device, stream, of.value),
        index_qk(device, stream, of.index_qk),
        q_gain(device, stream, of.q_gain),
        k_gain(device, stream, of.k_gain),
        index_q_gain(device, stream, of.index_q_gain),
        index_k_gain(device, stream, of.index_k_gain),
        inv_freq(device, stream, of.inv_freq),
        query(device, stream, std::vector<float>(of.query_gate.size() / 2, NAN)),
        index_query(device, stream,
                    std::vector<float>(
                        static_cast<std::size_t>(of.batch.rows() * of.batch.config.index_heads *
                                                 of.batch.config.index_dim),
                        NAN)),
        saturation(device, stream, std::vector<unsigned long long>(4)) {}

  QsaStoreArgs Args() const {
    const QsaConfig& c = test.batch.config;
    return {.rows = pages.Rows(),
            .tables = pages.Tables(),
            .query_gate = query_gate.data(),
            .key = key.data(),
            .value = value.data(),
            .index_qk = index_qk.data(),
            .q_gain = q_gain.data(),
            .k_gain = k_gain.data(),
            .index_q_gain = index_q_gain.data(),
            .index_k_gain = index_k_gain.data(),
            .inv_freq = inv_freq.data(),
            .eps = Case::kEps,
            .query_heads = c.query_heads,
            .rotary_dim = c.rotary_dim,
            .index_heads = c.index_heads,
            .selection_block_tokens = c.selection_block_tokens,
            .kv = pages.Kv(),
            .index = pages.Index(),
            .index_ring = pages.rings.data(),
            .query = query.data(),
            .index_query = index_query.data(),
            .saturation = saturation.data()};
  }

  const Case& test;
  DeviceBatch pages;
  OnDevice<float> query_gate, key, value, index_qk, q_gain, k_gain, index_q_gain, index_k_gain,
      inv_freq, query, index_query;
  OnDevice<unsigned long long> saturation;
};

Case::Outputs RunStore(Device& device, DeviceStream& stream, const CudaOps& ops, const Case& test) {
  const Operands o(device, stream, test);
  const Result<void> launched = ops.QsaStore(stream, o.Args());
  EXPECT_TRUE(launched.ok()) << launched.error().ToString();
  const std::vector<unsigned long long> lost = o.saturation.Read();
  return {o.query.Read(),         o.index_query.Read(),      o.pages.rings.Read(),
          o.pages.kv_pool.Read(), o.pages.index_pool.Read(), {lost[0], lost[1], lost[2], lost[3]}};
}

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(std::isnan(actual[i]), std::isnan(expected[i])) << i;
    if (std::isnan(expected[i])) continue;
    ASSERT_NEAR(actual[i], expected[i],
                tolerance::kDeviceNorm * std::max(1.0f, std::fabs(expected[i])))
        << i;
  }
}

/// V holds the same bytes everywhere. K went through a norm and a rotation that may differ in the
/// last bit of FP32, so a code may be the neighbour of the oracle's, rarely.
void ExpectSamePools(const Case& test, const Case::Outputs& actual, const Case::Outputs& expected) {
  const KvLayout& layout = test.batch.kv_layout;
  const auto side = static_cast<std::size_t>(layout.Offset(PageId{0}, KvSide::kValue, 0, 0));
  std::size_t neighbours = 0;
  ASSERT_EQ(actual.kv_pool.size(), expected.kv_pool.size());
  for (std::size_t i = 0; i < actual.kv_pool.size(); ++i) {
    if (actual.kv_pool[i] == expected.kv_pool[i]) continue;
    ASSERT_EQ(i / side % 2, 0u) << "V differs at byte " << i;
    ++neighbours;
    if (layout.dtype != KvDType::kE4M3) continue;
    const float a = DecodeE4M3(static_cast<std::uint8_t>(actual.kv_pool[i]));
    const float b = DecodeE4M3(static_cast<std::uint8_t>(expected.kv_pool[i]));
    ASSERT_LE(std::fabs(a - b), 0.126f * std::max(std::fabs(b), 0x1p-6f)) << i;
  }
  EXPECT_LE(neighbours, 4 + actual.kv_pool.size() / 500);
  ASSERT_EQ(actual.index_pool.size(), expected.index_pool.size());
  for (std::size_t i = 0; i < actual.index_pool.size(); i += 2) {
    const float a = LoadKvElement(KvDType::kFp16, actual.index_pool.data() + i, 0);
    const float b = LoadKvElement(KvDType::kFp16, expected.index_pool.data() + i, 0);
    ASSERT_EQ(std::isnan(a), std::isnan(b)) << i;
    if (std::isnan(b)) continue;
    ASSERT_NEAR(a, b, tolerance::kIndexKey) << i;
  }
}

constexpr KvDType kTypes[] = {KvDType::kFp16, KvDType::kE4M3};

TEST_F(CudaQsaStore, MatchesTheOracles) {
  for (const QsaConfig& config : {Config(24, 2, 256, 64, 128, 4), Config(12, 2, 64, 16, 64, 4),
                                  Config(3, 1, 48, 6, 16, 2), Config(5, 5, 112, 20, 80, 16)}) {
    for (const KvDType dtype : kTypes) {
      const std::int64_t most =
          kIndexRingTokens + 1 - config.selection_block_tokens;  // limit of the op
      Case test(config, dtype, {{1, 1}, {70, 6}, {64, 64}, {131, 67}, {4, 1}, {1003, most}});
      const Case::Outputs actual = RunStore(device(), stream(), ops(), test);
      const Case::Outputs expected = test.Expected();
      ExpectNear(actual.query, expected.query);
      ExpectNear(actual.index_query, expected.index_query);
      EXPECT_EQ(actual.rings, expected.rings);
      ExpectSamePools(test, actual, expected);
      EXPECT_EQ(actual.saturation.v, expected.saturation.v);
    }
  }
}

TEST_F(CudaQsaStore, RotatesAtTheLastPosition) {
  Case test(Config(2, 1, 64, 16, 64, 4), KvDType::kE4M3, {{262'144, 3}});
  const Case::Outputs actual = RunStore(device(), stream(), ops(), test);
  const Case::Outputs expected = test.Expected();
  ExpectNear(actual.query, expected.query);
  ExpectSamePools(test, actual, expected);
}

/// Values that a store must get right to the bit: ties, subnormals, clipping, infinities, NaNs.
std::vector<float> Extremes() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               448.0f,
                               -448.0f,
                               449.0f,
                               464.0f,
                               1e30f,
                               -1e30f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               std::bit_cast<float>(0xFFC12345u),
                               std::bit_cast<float>(0x7F800001u),
                               65504.0f,
                               65519.9f,
                               65520.0f,
                               1e-30f,
                               0x1p-24f,
                               0x1p-25f,
                               0x1.8p-25f};
  for (int code = 0; code < 0x7E; ++code) {  // every code, every midpoint, and just beside
    const float low = DecodeE4M3(static_cast<std::uint8_t>(code));
    const float high = DecodeE4M3(static_cast<std::uint8_t>(code + 1));
    const float middle = low + (high - low) / 2;
    for (const float x :
         {low, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1000.0f)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  return values;
}

TEST_F(CudaQsaStore, StoresTheSameBytesAsTheCpu) {
  const std::vector<float> extremes = Extremes();
  for (const float scale : {1.0f, 0.0171f, 3.7f}) {
    for (const KvDType dtype : kTypes) {
      Case test(Config(1, 2, 256, 64, 64, 4), dtype, {{70, 70}});
      test.batch.v_scale = dtype == KvDType::kE4M3 ? scale : 1.0f;
      const std::vector<float> random =
          RandomValues(static_cast<std::int64_t>(test.value.size()), 77, 300.0f * scale);
      for (std::size_t i = 0; i < test.value.size(); ++i) {
        test.value[i] = i < 4 * extremes.size() ? extremes[i % extremes.size()] * scale : random[i];
      }
      const Case::Outputs actual = RunStore(device(), stream(), ops(), test);
      const Case::Outputs expected = test.Expected();
      ExpectSamePools(test, actual, expected);
      EXPECT_EQ(actual.saturation.v, expected.saturation.v);
      EXPECT_EQ(actual.saturation.flushed_v, expected.saturation.flushed_v);
      EXPECT_EQ(expected.saturation.v > 0, dtype == KvDType::kE4M3);
      EXPECT_EQ(expected.saturation.flushed_v > 0, dtype == KvDType::kE4M3);
    }
  }
}

/// Cutting a sequence into calls changes nothing, rings and index keys included.
TEST_F(CudaQsaStore, AnyAllowedCutStoresTheSame) {
  const QsaConfig config = Config(4, 2, 64, 16, 64, 4);
  Case whole(config, KvDType::kE4M3, {{64 + 17, 64 + 17}});
  const Case::Outputs expected = RunStore(device(), stream(), ops(), whole);

  Case parts(config, KvDType::kE4M3, {{64 + 17, 64 + 17}});
  Case::Outputs state;
  std::int64_t begin = 0;
  for (const std::int64_t count : {64, 1, 3, 13}) {
    Case part(config, KvDType::kE4M3, {{begin + count, count}});
    const auto cut = [&](const std::vector<float>& all, std::vector<float>& own) {
      const std::int64_t width = static_cast<std::int64_t>(own.size()) / count;
      std::copy_n(all.begin() + begin * width, count * width, own.begin());
    };
    cut(parts.query_gate, part.query_gate), cut(parts.key, part.key);
    cut(parts.value, part.value), cut(parts.index_qk, part.index_qk);
    part.batch.table = parts.batch.table, part.batch.stride = parts.batch.stride;
    part.batch.kv_pool = begin == 0 ? parts.batch.kv_pool : state.kv_pool;
    part.batch.index_pool = begin == 0 ? parts.batch.index_pool : state.index_pool;
    part.batch.rings = begin == 0 ? parts.batch.rings : state.rings;
    state = RunStore(device(), stream(), ops(), part);
    begin += count;
  }
  EXPECT_EQ(state.kv_pool, expected.kv_pool);
  EXPECT_EQ(state.index_pool, expected.index_pool);
  EXPECT_EQ(state.rings, expected.rings);
}

TEST_F(CudaQsaStore, PaddingRowsAreLeftAlone) {
  Case test(Config(4, 2, 64, 16, 64, 4), KvDType::kE4M3, {{70, 1}, {71, 1}});
  const std::vector<std::byte> before = test.batch.kv_pool;
  test.batch.row_sequence = {-1, -1};
  const Case::Outputs actual = RunStore(device(), stream(), ops(), test);
  EXPECT_EQ(actual.kv_pool, before);
  EXPECT_EQ(actual.rings, test.batch.rings);
  for (const float value : actual.query) ASSERT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace kv8::cuda
