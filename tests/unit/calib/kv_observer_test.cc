#include "calib/kv_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace kv8 {
namespace {

using testing::HasSubstr;

std::vector<float> RandomValues(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = random() % 16 == 0 ? 0.0f : normal(random);
  return values;
}

/// One value at a time.
SideStatistics Reference(const std::vector<float>& values) {
  SideStatistics side;
  for (const float x : values) {
    ++side.count;
    ++side.finite_count;
    if (x == 0) continue;
    ++side.nonzero_count;
    side.max_abs = std::max(side.max_abs, std::fabs(x));
    ++side.histogram.bins[static_cast<std::size_t>(LogHistogram::BinOf(std::fabs(x)))];
  }
  return side;
}

void ExpectEqual(const SideStatistics& a, const SideStatistics& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.finite_count, b.finite_count);
  EXPECT_EQ(a.nonzero_count, b.nonzero_count);
  EXPECT_EQ(a.max_abs, b.max_abs);
  EXPECT_EQ(a.histogram.bins, b.histogram.bins);
}

TEST(KvObserver, EqualsCountingOneByOneForAnyCutAndThreadCount) {
  constexpr std::int64_t kRows = 333;
  constexpr std::int64_t kCols = 37;
  const std::vector<float> k = RandomValues(kRows * kCols, 1);
  const std::vector<float> v = RandomValues(kRows * kCols, 2);
  for (const int threads : {1, 3}) {
    for (const std::int64_t cut : {kRows, std::int64_t{64}, std::int64_t{1}}) {
      ThreadPool pool(threads);
      std::vector<LayerStatistics> layers = {{.layer = 3}, {.layer = 12}};
      KvObserver observer(pool, layers);
      observer.BeginDocument("en", "corpus.jsonl:1");
      for (std::int64_t row = 0; row < kRows; row += cut) {
        const std::int64_t rows = std::min(cut, kRows - row);
        observer.OnKeyValue(12, ConstMatrix(k.data() + row * kCols, rows, kCols),
                            ConstMatrix(v.data() + row * kCols, rows, kCols));
      }
      ExpectEqual(layers[1].k, Reference(k));
      ExpectEqual(layers[1].v, Reference(v));
      EXPECT_EQ(layers[0].k.count, 0u);
      EXPECT_TRUE(observer.status().ok());
    }
  }
}

TEST(KvObserver, ReadsOnlyTheColumnsOfAStridedView) {
  const std::vector<float> values = {1, 2, 99, 3, 4, 99};
  ThreadPool pool(1);
  std::vector<LayerStatistics> layers = {{.layer = 0}};
  KvObserver observer(pool, layers);
  observer.BeginDocument("en", "corpus.jsonl:1");
  observer.OnKeyValue(0, ConstMatrix(values.data(), 2, 2, 3), ConstMatrix(values.data(), 1, 1, 3));
  EXPECT_EQ(layers[0].k.count, 4u);
  EXPECT_EQ(layers[0].k.max_abs, 4);
  EXPECT_EQ(layers[0].v.max_abs, 1);
}

TEST(KvObserver, KeepsTheMaximumOfEachCategory) {
  ThreadPool pool(1);
  std::vector<LayerStatistics> layers = {{.layer = 0}};
  KvObserver observer(pool, layers);
  const auto observe = [&](const std::string& category, float k, float v) {
    observer.BeginDocument(category, "corpus.jsonl:1");
    observer.OnKeyValue(0, ConstMatrix(&k, 1, 1), ConstMatrix(&v, 1, 1));
  };
  observe("en", -3, 0);
  observe("code", 1, 5);
  observe("en", 2, 0.5f);
  EXPECT_EQ(layers[0].k.shard_max_abs, (std::map<std::string, float>{{"code", 1}, {"en", 3}}));
  EXPECT_EQ(layers[0].v.shard_max_abs, (std::map<std::string, float>{{"code", 5}, {"en", 0.5f}}));
}

TEST(KvObserver, RefusesValuesThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    ThreadPool pool(2);
    std::vector<LayerStatistics> layers = {{.layer = 7}};
    KvObserver observer(pool, layers);
    observer.BeginDocument("en", "corpus.jsonl:9");
    std::vector<float> values(100, 1.0f);
    observer.OnKeyValue(7, ConstMatrix(values.data(), 100, 1), ConstMatrix(values.data(), 100, 1));
    ASSERT_TRUE(observer.status().ok());
    std::vector<float> broken = values;
    broken[60] = bad;
    observer.OnKeyValue(7, ConstMatrix(values.data(), 100, 1), ConstMatrix(broken.data(), 100, 1));
    const auto status = observer.status();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, Code::kCorrupt);
    EXPECT_THAT(status.error().what, HasSubstr("layer 7 V"));
    EXPECT_EQ(status.error().where, "corpus.jsonl:9");
  }
}

}  // namespace
}  // namespace kv8
