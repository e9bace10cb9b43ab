#include "calib/kv_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "numeric/log_histogram.h"

namespace kv8 {
namespace {

using testing::HasSubstr;

HeadMagnitudes Head(std::initializer_list<float> magnitudes) {
  HeadMagnitudes head;
  for (const float x : magnitudes) {
    ++head.count;
    head.max_bits = std::max(head.max_bits, std::uint64_t{std::bit_cast<std::uint32_t>(x)});
    if (x == 0) ++head.zeros;
    if (std::isfinite(x) && x > 0) ++head.bins[LogHistogram::BinOf(static_cast<double>(x))];
  }
  return head;
}

TEST(KvStatistics, JoinsTheHeadsOfASide) {
  std::vector<LayerStatistics> layers = {{.layer = 3}, {.layer = 12}};
  const std::vector<HeadMagnitudes> heads = {Head({1, 2}), Head({0, 4}), Head({8}), Head({16}),
                                             Head({}),     Head({}),     Head({}),  Head({})};
  ASSERT_TRUE(AddMagnitudes(heads, {"en", "corpus.jsonl:1"}, layers).ok());
  EXPECT_EQ(layers[0].k.count, 4u);
  EXPECT_EQ(layers[0].k.finite_count, 4u);
  EXPECT_EQ(layers[0].k.nonzero_count, 3u);
  EXPECT_EQ(layers[0].k.max_abs, 4);
  EXPECT_EQ(layers[0].k.histogram.bins[LogHistogram::BinOf(2)], 1u);
  EXPECT_EQ(layers[0].v.max_abs, 16);
  EXPECT_EQ(layers[1].k.count, 0u);
  EXPECT_TRUE(layers[1].k.shard_max_abs.empty());
}

TEST(KvStatistics, KeepsTheMaximumOfEachCategory) {
  std::vector<LayerStatistics> layers = {{.layer = 0}};
  const auto add = [&](const std::string& category, float k, float v) {
    const std::vector<HeadMagnitudes> heads = {Head({k}), Head({v})};
    ASSERT_TRUE(AddMagnitudes(heads, {category, "corpus.jsonl:1"}, layers).ok());
  };
  add("en", 3, 0);
  add("code", 1, 5);
  add("en", 2, 0.5f);
  EXPECT_EQ(layers[0].k.shard_max_abs, (std::map<std::string, float>{{"code", 1}, {"en", 3}}));
  EXPECT_EQ(layers[0].v.shard_max_abs, (std::map<std::string, float>{{"code", 5}, {"en", 0.5f}}));
}

TEST(KvStatistics, RefusesValuesThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<LayerStatistics> layers = {{.layer = 7}};
    const std::vector<HeadMagnitudes> heads = {Head({1}), Head({bad})};
    const auto added = AddMagnitudes(heads, {"en", "corpus.jsonl:9"}, layers);
    ASSERT_FALSE(added.ok());
    EXPECT_EQ(added.error().code, Code::kCorrupt);
    EXPECT_THAT(added.error().what, HasSubstr("layer 7 V"));
    EXPECT_EQ(added.error().where, "corpus.jsonl:9");
    EXPECT_EQ(layers[0].k.count, 0u);
  }
}

}  // namespace
}  // namespace kv8
