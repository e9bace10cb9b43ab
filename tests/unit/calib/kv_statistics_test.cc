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
    if (x == 0) ++head.zeros;
    if (std::isfinite(x) && x > 0) ++head.bins[LogHistogram::BinOf(static_cast<double>(x))];
  }
  return head;
}

/// One maximum per head.
std::vector<std::uint32_t> Bits(std::initializer_list<float> maxima) {
  std::vector<std::uint32_t> bits;
  for (const float x : maxima) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

CalibrationReport Report(std::vector<LayerStatistics> layers) {
  CalibrationReport report;
  report.target_layers = 12;
  report.layers = std::move(layers);
  return report;
}

TEST(KvStatistics, JoinsTheHeadsOfASide) {
  std::vector<LayerStatistics> layers = {{.layer = 3}, {.layer = 12}};
  const std::vector<HeadMagnitudes> heads = {Head({1, 2}), Head({0, 4}), Head({8}), Head({16}),
                                             Head({}),     Head({}),     Head({}),  Head({})};
  AddMagnitudes(heads, layers);
  EXPECT_EQ(layers[0].k.count, 4u);
  EXPECT_EQ(layers[0].k.finite_count, 4u);
  EXPECT_EQ(layers[0].k.nonzero_count, 3u);
  EXPECT_EQ(layers[0].k.histogram.bins[LogHistogram::BinOf(2)], 1u);
  EXPECT_EQ(layers[0].v.count, 2u);
  EXPECT_EQ(layers[1].k.count, 0u);
}

TEST(KvStatistics, ADocumentRaisesTheMaximaOfItsSides) {
  CalibrationReport report = Report({{.layer = 3}, {.layer = 12}});
  const auto add = [&](std::uint64_t tokens) {
    return AddDocument(Bits({2, 4, 8, 16, 0, 0, 0, 0}), {"en", "corpus.jsonl:1", tokens},
                       report.target_layers, report);
  };
  ASSERT_TRUE(add(1).ok());
  EXPECT_EQ(report.documents, 1u);
  EXPECT_EQ(report.tokens, 1u);
  EXPECT_EQ(report.layers[0].k.max_abs, 4);
  EXPECT_EQ(report.layers[0].v.max_abs, 16);
  EXPECT_TRUE(report.layers[1].k.shard_max_abs.empty()) << "the draft layer saw no row";
  ASSERT_TRUE(add(2).ok());
  EXPECT_EQ(report.tokens, 3u);
  EXPECT_EQ(report.layers[1].k.shard_max_abs, (std::map<std::string, float>{{"en", 0}}));
}

TEST(KvStatistics, KeepsTheMaximumOfEachCategory) {
  CalibrationReport report = Report({{.layer = 0}});
  const auto add = [&](const std::string& category, float k, float v) {
    ASSERT_TRUE(
        AddDocument(Bits({k, v}), {category, "corpus.jsonl:1", 5}, report.target_layers, report)
            .ok());
  };
  add("en", 3, 0);
  add("code", 1, 5);
  add("en", 2, 0.5f);
  const LayerStatistics& layer = report.layers[0];
  EXPECT_EQ(layer.k.shard_max_abs, (std::map<std::string, float>{{"code", 1}, {"en", 3}}));
  EXPECT_EQ(layer.v.shard_max_abs, (std::map<std::string, float>{{"code", 5}, {"en", 0.5f}}));
}

TEST(KvStatistics, RefusesValuesThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    CalibrationReport report = Report({{.layer = 7}});
    const auto added =
        AddDocument(Bits({1, bad}), {"en", "corpus.jsonl:9", 5}, report.target_layers, report);
    ASSERT_FALSE(added.ok());
    EXPECT_EQ(added.error().code, Code::kCorrupt);
    EXPECT_THAT(added.error().what, HasSubstr("layer 7 V"));
    EXPECT_EQ(added.error().where, "corpus.jsonl:9");
    EXPECT_EQ(report.documents, 0u);
    EXPECT_EQ(report.layers[0].k.max_abs, 0);
  }
}

}  // namespace
}  // namespace kv8
