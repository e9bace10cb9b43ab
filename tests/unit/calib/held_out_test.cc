// Held-out documents and scale rules in whole calibrations.
#include <algorithm>

#include "scalepack/compared_rules.h"
#include "unit/calib/calibrator_fixture.h"

namespace kv8 {
namespace {

using namespace test;

/// Holds out some of Documents(), not all.
constexpr int kPercent = 60;

class HeldOutTest : public CalibratorTest {
 protected:
  CalibrationOptions HoldingOut(const std::string& output) const {
    CalibrationOptions options = Options(output);
    options.held_out_percent = kPercent;
    return options;
  }
  CalibrationReport Report(const CalibrationOptions& options) {
    return ReportFromJson(*ParseJson(Measured(options), "r"), "r").value();
  }
};

TEST_F(HeldOutTest, BothPartsTogetherAreTheCorpus) {
  const CalibrationReport whole = Report(Options("whole.json"));
  const CalibrationReport split = Report(HoldingOut("split.json"));
  const MeasuredDocuments& held_out = split.held_out->measured;
  EXPECT_GT(held_out.documents, 0u);
  EXPECT_GT(split.documents, 0u);
  EXPECT_EQ(split.documents + held_out.documents, whole.documents);
  EXPECT_EQ(split.tokens + held_out.tokens, whole.tokens);
  for (std::size_t i = 0; i < whole.layers.size(); ++i) {
    const SideStatistics& fitted = split.layers[i].k;
    const SideStatistics& other = held_out.layers[i].k;
    const SideStatistics& all = whole.layers[i].k;
    EXPECT_EQ(std::max(fitted.max_abs, other.max_abs), all.max_abs);
    for (std::size_t bin = 0; bin < all.histogram.bins.size(); ++bin) {
      ASSERT_EQ(fitted.histogram.bins[bin] + other.histogram.bins[bin], all.histogram.bins[bin]);
    }
    EXPECT_EQ(fitted.saturation_checked_count, all.saturation_checked_count) << "all documents";
  }
}

TEST_F(HeldOutTest, NeitherThreadsNorPassesNorAStopLeaveATrace) {
  CalibrationOptions options = HoldingOut("one.json");
  options.rule = {.method = ScaleMethod::kMse, .margin = 1.05};
  const std::string one = Measured(options);
  options.output = dir_ / "other.json";
  EXPECT_EQ(Measured(options, 3, PassSize{64, 3}), one);
  options.save_interval = std::chrono::seconds(0);
  for (int stop_at = 2;; stop_at += 3) {
    options.output = dir_ / ("stopped" + std::to_string(stop_at) + ".json");
    int calls = 0;
    Bench bench;
    bench.pass = PassSize{64, 1};
    const auto stopped = Calibrate(bench.inputs(), options,
                                   [&](const CalibrationProgress&) { return ++calls < stop_at; });
    if (stopped.ok()) break;
    EXPECT_EQ(Measured(options), one) << "stopped at call " << stop_at;
  }
}

TEST_F(HeldOutTest, ACopyOfADocumentIsOnItsSide) {
  WriteFile(dir_ / "twice.jsonl", Joined(Documents()) + Joined(Documents()));
  CalibrationOptions options = HoldingOut("twice.json");
  options.corpus = {dir_ / "twice.jsonl"};
  options.saturation_tokens = 0;
  const CalibrationReport twice = Report(options);
  const CalibrationReport once = Report(HoldingOut("once.json"));
  EXPECT_EQ(twice.documents, 2 * once.documents);
  EXPECT_EQ(twice.held_out->measured.tokens, 2 * once.held_out->measured.tokens);
  EXPECT_EQ(twice.layers[0].v.max_abs, once.layers[0].v.max_abs);
}

TEST_F(HeldOutTest, PartsMergeToTheWhole) {
  const auto documents = Documents();
  WriteFile(dir_ / "a.jsonl", documents[0] + documents[1] + documents[2]);
  WriteFile(dir_ / "b.jsonl", documents[3] + documents[4] + Joined(Documents()));
  std::vector<std::filesystem::path> parts;
  for (const std::string name : {"a", "b"}) {
    CalibrationOptions options = HoldingOut(name + ".json");
    options.corpus = {dir_ / (name + ".jsonl")};
    options.saturation_tokens = 0;
    options.rule = {.method = ScaleMethod::kMse};
    Measured(options);
    parts.push_back(options.output);
  }
  CalibrationOptions options = HoldingOut("whole.json");
  options.corpus = {dir_ / "a.jsonl", dir_ / "b.jsonl"};
  options.saturation_tokens = 0;
  options.rule = {.method = ScaleMethod::kMse};
  Json whole = *ParseJson(Measured(options), "whole");
  ASSERT_TRUE(MergeReportFiles(parts, dir_ / "merged.json").ok());
  Json merged = *ParseJson(Content(dir_ / "merged.json"), "merged");
  whole.erase("input_files");
  merged.erase("input_files");
  EXPECT_EQ(merged, whole);
}

TEST_F(HeldOutTest, AMergeMaySetAnotherRule) {
  CalibrationOptions options = Options("max.json");
  options.saturation_tokens = 0;
  Measured(options);
  options.output = dir_ / "mse.json";
  options.rule = {.method = ScaleMethod::kMse};
  const std::string mse = Measured(options);
  ASSERT_TRUE(MergeReportFiles({dir_ / "max.json"}, dir_ / "set.json", options.rule).ok());
  EXPECT_EQ(Content(dir_ / "set.json"), mse);
}

TEST_F(HeldOutTest, RefusesASplitThatLeavesAPartEmpty) {
  WriteFile(dir_ / "one.jsonl", Documents()[0]);
  CalibrationOptions options = HoldingOut("report.json");
  options.corpus = {dir_ / "one.jsonl"};
  Bench bench;
  const auto report = Calibrate(bench.inputs(), options, kGoOn);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_NE(report.error().what.find("of 1 documents, 60% by their hash are"), std::string::npos);
}

}  // namespace
}  // namespace kv8
