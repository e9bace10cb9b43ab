// docs/spec/scale-pack.md, "Rules": how scales follow from what was measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numeric/e4m3.h"
#include "scalepack/compared_rules.h"
#include "scalepack/manifest.h"
#include "scalepack/pack_writer.h"
#include "scalepack/provenance.h"
#include "scalepack/rounding_error.h"
#include "scalepack/scale_pack.h"
#include "support/pack_test.h"

namespace kv8 {
namespace {

using test::EditManifest;
using test::MakeReport;
using test::Refuses;
using test::Slurp;
using test::TinyModel;
using test::TinyModelDir;

constexpr const char* kTensor = "model.layers.7.self_attn.k_scale";

ScaleRule Percentile(double percentile, double margin = 1) {
  return {.method = ScaleMethod::kPercentile, .percentile = percentile, .margin = margin};
}

/// 1,000 values: so many below 1, the rest far above.
SideStatistics WithOutliers(std::uint64_t outliers) {
  SideStatistics side;
  side.count = side.finite_count = side.nonzero_count = 1000;
  side.max_abs = 4.0f;
  side.shard_max_abs = {{"en", 4.0f}};
  side.histogram.bins[LogHistogram::BinOf(4.0)] = outliers;
  side.histogram.bins[LogHistogram::BinOf(0.9)] = 1000 - outliers;
  return side;
}

class SpecScaleRules : public test::PackTest {
 protected:
  /// A pack whose scales follow by `rule`.
  void PackBy(const ScaleRule& rule) {
    CalibrationReport report = MakeReport(TinyModel());
    ApplyRule(rule, &report);
    std::filesystem::remove_all(pack_);
    ASSERT_TRUE(WritePack(report, TinyModel(), pack_, {}).ok());
  }
};

TEST_F(SpecScaleRules, Scale38_TheMaximumWithAMargin) {
  const SideStatistics side = WithOutliers(3);
  EXPECT_EQ(ScaleFor(side, {}), ScaleForMaxAbs(4.0f));
  const float with_margin = ScaleFor(side, {.margin = 1.05});
  EXPECT_GE(448.0 * with_margin, 4.0 * 1.05);
  EXPECT_LT(448.0 * std::nextafterf(with_margin, 0), 4.0 * 1.05);
}

TEST_F(SpecScaleRules, Scale38_APercentileIsTheUpperEdgeOfItsBinAndAtMostTheMaximum) {
  const SideStatistics side = WithOutliers(3);
  const double edge = LogHistogram::UpperEdge(LogHistogram::BinOf(0.9));
  EXPECT_EQ(ScaleFor(side, Percentile(99.7)), ScaleForMaxAbs(edge));
  EXPECT_EQ(ScaleFor(side, Percentile(99.7, 1.1)), ScaleForMaxAbs(edge * 1.1));
  EXPECT_EQ(ScaleFor(side, Percentile(99.8)), ScaleForMaxAbs(4.0f));
  EXPECT_EQ(ScaleFor(side, Percentile(100)), ScaleForMaxAbs(4.0f));
}

TEST_F(SpecScaleRules, Scale38_LeastErrorIsNoWorseThanAnyOtherStep) {
  for (const std::uint64_t outliers : {1u, 500u}) {
    const SideStatistics side = WithOutliers(outliers);
    const float scale = ScaleFor(side, {.method = ScaleMethod::kMse});
    const double least = EstimateRounding(side, scale).squared_error;
    for (int step = 1; step <= 256; ++step) {
      const float other = ScaleForMaxAbs(4.0 * step / 256);
      const double error = EstimateRounding(side, other).squared_error;
      EXPECT_TRUE(least < error || (least == error && other <= scale)) << step;
    }
  }
}

TEST_F(SpecScaleRules, Scale39_EstimatesAreThoseOfTheCodec) {
  SideStatistics side = WithOutliers(0);
  side.max_abs = 0.9f;
  const float x = std::min(LogHistogram::Middle(LogHistogram::BinOf(0.9)), 0.9f);
  const double error = x - static_cast<double>(DecodeE4M3(QuantizeE4M3(x, 0.003f))) * 0.003f;
  const RoundingEstimate estimate = EstimateRounding(side, 0.003f);
  EXPECT_NEAR(estimate.squared_error, 1000 * error * error, 1e-12);
  EXPECT_NEAR(estimate.relative(), std::abs(error) / x, 1e-12);
}

TEST_F(SpecScaleRules, Scale39_ClippedCountsBoundTheTruth) {
  const SideStatistics side = WithOutliers(3);
  const auto clipped = [&](double limit) {
    const ClippedCount count = CountClipped(side, ScaleForMaxAbs(limit));
    return std::pair(count.at_least, count.at_most);
  };
  EXPECT_EQ(clipped(4.0), std::pair(0ul, 0ul));
  EXPECT_EQ(clipped(3.98), std::pair(3ul, 3ul));
  EXPECT_EQ(clipped(4.0 - 1e-6).second, 3ul);
  EXPECT_EQ(clipped(0.9), std::pair(3ul, 1000ul));  // inside of a bin
  EXPECT_EQ(clipped(0.5), std::pair(1000ul, 1000ul));
}

TEST_F(SpecScaleRules, Scale40_PackAndViewStateTheRule) {
  const ScaleRule rule = Percentile(99, 1.05);
  PackBy(rule);
  const ScalePack pack = ReadScalePack(pack_).value();
  EXPECT_EQ(pack.manifest.rule, rule);
  EXPECT_NE(pack.target.content.metadata.at("qsa_kv_scale_contract").find("clip_limit"),
            std::string::npos);
  EXPECT_TRUE(Load().ok());
  ASSERT_TRUE(MakeView().ok());
  const Json provenance = Json::parse(Slurp(view_ / kProvenanceFile));
  EXPECT_EQ(ParseProvenance(provenance, "p")->rule, rule);
  EXPECT_TRUE(LoadView().ok());
}

TEST_F(SpecScaleRules, Scale40_TheDefaultLeavesNoTrace) {
  EXPECT_FALSE(ManifestToJson(ReadScalePack(pack_)->manifest).contains("scale_rule"));
  EXPECT_FALSE(ReportToJson(MakeReport(TinyModel())).contains("scale_rule"));
}

TEST_F(SpecScaleRules, Scale40_UnknownRulesAndValuesAreRefused) {
  const auto refused = [&](const Json& rule, const std::string& key) {
    Json report = ReportToJson(MakeReport(TinyModel()));
    report["scale_rule"] = rule;
    EXPECT_TRUE(Refuses(ReportFromJson(report, "r.json"), Code::kCorrupt, {"scale_rule", key}));
    Restore();
    EditManifest(pack_, [&](Json& json) { json["scale_rule"] = rule; });
    EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"scale_rule", key}));
  };
  refused({{"method", "median"}, {"margin", 1}}, "method");
  refused({{"method", "mse"}}, "margin");
  refused({{"method", "mse"}, {"margin", 0.99}}, "margin");
  refused({{"method", "mse"}, {"margin", 2.01}}, "margin");
  refused({{"method", "mse"}, {"margin", 1}, {"percentile", 99}}, "percentile");
  refused({{"method", "percentile"}, {"margin", 1}}, "percentile");
  refused({{"method", "percentile"}, {"margin", 1}, {"percentile", 100.5}}, "percentile");
  refused({{"method", "max"}, {"margin", 1}}, "default");
}

TEST_F(SpecScaleRules, Scale40_AScaleIsWithinWhatTheMaximumAndTheMarginGive) {
  PackBy(Percentile(99, 1.05));
  EditManifest(pack_, [](Json& json) { json["tensors"][0]["max_abs"] = 1e-3; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"tensors[0].scale", "at most"}));
  PackBy({.margin = 1.05});
  EXPECT_TRUE(Load().ok());
  EditManifest(pack_, [](Json& json) { json["scale_rule"]["margin"] = 1.1; });
  EXPECT_TRUE(Refuses(Load(), Code::kCorrupt, {"tensors[0].scale"}));
}

TEST_F(SpecScaleRules, Scale41_ReportsOfDifferentRulesDoNotMerge) {
  const CalibrationReport a = MakeReport(TinyModel());
  CalibrationReport b = a;
  ApplyRule({.margin = 1.05}, &b);
  EXPECT_TRUE(Refuses(MergeReports({a, b}), Code::kMismatch, {"scale_rule", "margin 1.05"}));
  b = a;
  b.held_out = HeldOut{20, {.layers = a.layers}};
  EXPECT_TRUE(Refuses(MergeReports({a, b}), Code::kMismatch, {"held_out.percent", "20", "none"}));
}

TEST_F(SpecScaleRules, Scale41_SaturationIsForgottenWhereAScaleMayHaveMoved) {
  CalibrationReport report = MakeReport(TinyModel());
  ApplyRule({.method = ScaleMethod::kMse}, &report);
  EXPECT_EQ(report.layers[0].k.saturation_checked_count, 0u);
  report.layers[0].k.saturation_checked_count = 10;  // as if a run had counted
  EXPECT_EQ(MergeReports({report})->layers[0].k.saturation_checked_count, 10u);
  EXPECT_EQ(MergeReports({report, report})->layers[0].k.saturation_checked_count, 0u);
}

TEST_F(SpecScaleRules, Scale42_HeldOutValuesJudgeEveryRuleAndMoveNoScale) {
  CalibrationReport report = MakeReport(TinyModel());
  const Json without = ReportToJson(report);
  report.held_out = HeldOut{20, {.documents = 2, .tokens = 9, .layers = report.layers}};
  for (LayerStatistics& layer : report.held_out->measured.layers) layer.k = WithOutliers(3);
  const Json json = ReportToJson(report);
  EXPECT_EQ(json["tensors"], without["tensors"]);
  const auto read = ReportFromJson(json, "r.json");
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(ReportToJson(*read), json);
  const auto totals = CompareRules(*read);
  ASSERT_EQ(totals.size(), 7u);
  EXPECT_EQ(Describe(totals[1].rule), "max, margin 1.05");
  Json bad = json;
  bad["held_out"]["tensors"][kTensor]["rules"][0]["clipped_at_most"] = 77;
  EXPECT_TRUE(Refuses(ReportFromJson(bad, "r.json"), Code::kCorrupt, {kTensor, "rules"}));
  for (const int percent : {0, 100}) {
    bad = json;
    bad["held_out"]["percent"] = percent;
    EXPECT_TRUE(Refuses(ReportFromJson(bad, "r.json"), Code::kCorrupt, {"held_out.percent"}));
  }
  bad = json;
  bad["held_out"]["tensors"].erase(kTensor);
  EXPECT_TRUE(Refuses(ReportFromJson(bad, "r.json"), Code::kCorrupt, {"held_out.tensors"}));
}

}  // namespace
}  // namespace kv8
