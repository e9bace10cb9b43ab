#include <gtest/gtest.h>

#include <cstdint>

#include "base/sha256.h"
#include "scalepack/calibration_report.h"
#include "support/scale_pack_fixture.h"

namespace kv8 {
namespace {

using test::MakeReport;
using test::Refuses;
using test::TinyModel;

/// A report whose every value differs from MakeReport's by the factor.
CalibrationReport Scaled(float factor, const std::string& corpus) {
  CalibrationReport report = MakeReport(TinyModel());
  report.corpus_sha256 = {Sha256Hex(corpus)};
  for (LayerStatistics& layer : report.layers) {
    for (SideStatistics* side : {&layer.k, &layer.v}) {
      SideStatistics scaled = *side;
      scaled.max_abs = side->max_abs * factor;
      scaled.saturated_count = 2;
      scaled.histogram = {};
      scaled.histogram.bins[LogHistogram::BinOf(scaled.max_abs)] = side->nonzero_count;
      scaled.shard_max_abs = {{corpus, scaled.max_abs}};
      *side = scaled;
    }
  }
  return report;
}

Json Merged(const std::vector<CalibrationReport>& reports) {
  return ReportToJson(MergeReports(reports).value());
}

TEST(MergeReports, AddsCountsAndTakesMaxima) {
  const auto merged = MergeReports({Scaled(1, "a"), Scaled(2, "b")}).value();
  const SideStatistics& side = merged.layers[1].k;
  EXPECT_EQ(side.max_abs, 19.5f);
  EXPECT_EQ(side.count, 2000u);
  EXPECT_EQ(side.nonzero_count, 1980u);
  EXPECT_EQ(merged.tokens, 1000u);
  EXPECT_EQ(merged.documents, 6u);
  EXPECT_EQ(merged.corpus_sha256.size(), 2u);
  EXPECT_EQ(side.shard_max_abs.at("a"), 9.75f);
  EXPECT_EQ(side.shard_max_abs.at("b"), 19.5f);
  const auto read = ReportFromJson(ReportToJson(merged), "merged");
  EXPECT_TRUE(read.ok()) << read.error().ToString();
}

TEST(MergeReports, IsAssociativeAndCommutative) {
  const auto a = Scaled(1, "a");
  const auto b = Scaled(3, "b");
  const auto c = Scaled(2, "c");
  const Json all = Merged({a, b, c});
  EXPECT_EQ(Merged({c, a, b}), all);
  EXPECT_EQ(Merged({MergeReports({a, b}).value(), c}), all);
  EXPECT_EQ(Merged({a, MergeReports({c, b}).value()}), all);
  EXPECT_EQ(Merged({a}), ReportToJson(a));
}

TEST(MergeReports, SaturationStaysExactOnlyWhileTheScaleStays) {
  const auto same = MergeReports({Scaled(1, "a"), Scaled(1, "b")}).value();
  EXPECT_EQ(same.layers[0].k.saturated_count, 4u);
  EXPECT_FALSE(same.layers[0].k.saturation_is_upper_bound);
  const auto raised = MergeReports({Scaled(1, "a"), Scaled(2, "b")}).value();
  EXPECT_EQ(raised.layers[0].k.saturated_count, 4u);
  EXPECT_TRUE(raised.layers[0].k.saturation_is_upper_bound);
}

TEST(MergeReports, RefusesWhatDoesNotBelongTogether) {
  const auto a = Scaled(1, "a");
  EXPECT_TRUE(Refuses(MergeReports({}), Code::kInvalidArgument, {"no calibration reports"}));
  auto other = a;
  other.base.index_sha256 = Sha256Hex("other");
  EXPECT_TRUE(Refuses(MergeReports({a, other}), Code::kMismatch, {"report 2", "index_sha256"}));
  other = a;
  other.base.kv_weights_sha256 = Sha256Hex("other");
  EXPECT_TRUE(Refuses(MergeReports({a, other}), Code::kMismatch, {"kv_weights_sha256"}));
  other = MakeReport(TinyModel(), /*with_draft=*/false);
  EXPECT_TRUE(Refuses(MergeReports({a, other}), Code::kMismatch, {"[3, 7, 11, 12]", "[3, 7, 11]"}));
}

TEST(MergeReports, RefusesCountsThatOverflow) {
  auto a = Scaled(1, "a");
  a.layers[0].v.count = UINT64_MAX;
  EXPECT_TRUE(Refuses(MergeReports({a, a}), Code::kResourceExhausted, {"report 2"}));
}

}  // namespace
}  // namespace kv8
