#include "ops/kv_observe.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "numeric/log_histogram.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "unit/ops/random_values.h"

namespace kv8 {
namespace {

struct Observed {
  std::vector<HeadMagnitudes> heads;
  std::vector<std::uint32_t> max_bits;
};

Observed Observe(KvObserveFn& observe, int threads, int heads, const std::vector<float>& k,
                 const std::vector<float>& v, std::int64_t rows, std::int64_t cut) {
  const auto count_of = static_cast<std::size_t>(2 * heads);
  Observed out{std::vector<HeadMagnitudes>(count_of), std::vector<std::uint32_t>(count_of)};
  const std::int64_t cols = static_cast<std::int64_t>(k.size()) / rows;
  ThreadPool pool(threads);
  for (std::int64_t row = 0; row < rows; row += cut) {
    const std::int64_t count = std::min(cut, rows - row);
    observe({pool}, heads, ConstMatrix(k.data() + row * cols, count, cols),
            ConstMatrix(v.data() + row * cols, count, cols), out.heads, out.max_bits);
  }
  return out;
}

void ExpectEqual(const Observed& a, const Observed& b) {
  ASSERT_EQ(a.heads.size(), b.heads.size());
  EXPECT_EQ(std::memcmp(a.heads.data(), b.heads.data(), a.heads.size() * sizeof(HeadMagnitudes)),
            0);
  EXPECT_EQ(a.max_bits, b.max_bits);
}

std::vector<float> Values(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values = RandomValues(count, seed, 30.0f);
  const float extremes[] = {
      0.0f, -0.0f, 1e-40f, 3e38f, -3e38f, std::numeric_limits<float>::min(), 0x1p-24f, 0x1p16f};
  for (std::size_t i = 0; i < std::size(extremes); ++i) values[i * 5 + seed] = extremes[i];
  return values;
}

TEST(KvObserve, EqualsTheOracleForAnyCutAndThreadCount) {
  constexpr std::int64_t kRows = 333;
  for (const int heads : {1, 3}) {
    const std::vector<float> k = Values(kRows * heads * 7, 1), v = Values(kRows * heads * 7, 2);
    const auto expected = Observe(reference::KvObserve, 1, heads, k, v, kRows, kRows);
    for (const int threads : {1, 3}) {
      for (const std::int64_t cut : {kRows, std::int64_t{64}, std::int64_t{1}}) {
        ExpectEqual(Observe(simd::KvObserve, threads, heads, k, v, kRows, cut), expected);
      }
    }
  }
}

TEST(KvObserve, CountsEachHeadApart) {
  const std::vector<float> k = {1, -2, 0, 8}, v = {3, 4, 5, 6};
  for (KvObserveFn* observe : {&reference::KvObserve, &simd::KvObserve}) {
    const auto out = Observe(*observe, 1, 2, k, v, 1, 1);
    EXPECT_EQ(out.max_bits[0], std::bit_cast<std::uint32_t>(2.0f));
    EXPECT_EQ(out.heads[1].zeros, 1u);
    EXPECT_EQ(out.heads[1].bins[LogHistogram::BinOf(8)], 1u);
    EXPECT_EQ(out.heads[2].count, 2u);
    EXPECT_EQ(out.max_bits[3], std::bit_cast<std::uint32_t>(6.0f));
  }
}

TEST(KvObserve, ValuesThatAreNotFiniteRaiseTheMaximumOnly) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    const std::vector<float> k = {1, bad}, v = {1, 1};
    for (KvObserveFn* observe : {&reference::KvObserve, &simd::KvObserve}) {
      const auto out = Observe(*observe, 1, 1, k, v, 1, 1);
      EXPECT_GE(out.max_bits[0], 0x7F800000u);
      EXPECT_EQ(out.heads[0].count, 2u);
      std::uint64_t binned = 0;
      for (const std::uint64_t count : out.heads[0].bins) binned += count;
      EXPECT_EQ(binned, 1u);
    }
  }
}

}  // namespace
}  // namespace kv8
