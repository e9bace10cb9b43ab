// A calibration on a GPU beside the CPU's, over the bundled model.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "calib/calibrator.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "support/test_device.h"

namespace kv8 {
namespace {

CalibrationReport Measure(DeviceKind device, const test::TempDir& dir,
                          std::optional<PassSize> pass = std::nullopt) {
  const LoadedModel model =
      LoadedModel::Open({.dir = test::BundledModel(), .with_draft = std::nullopt}).value();
  const Tokenizer tokenizer = Tokenizer::Load(test::BundledModel() / "tokenizer.json").value();
  CalibrationOptions options;
  options.corpus = {test::SourceDir() / "examples/corpus/calibration.jsonl"};
  options.output = dir / (device == DeviceKind::kCuda ? "cuda.json" : "cpu.json");
  std::filesystem::remove(options.output);
  options.max_tokens = 6000;
  const auto report = Calibrate(
      {.model = model, .tokenizer = tokenizer, .device = device, .threads = 4, .pass = pass},
      options, [](const CalibrationProgress&) { return true; });
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  return report.value();
}

void ExpectAlike(const SideStatistics& cpu, const SideStatistics& gpu) {
  EXPECT_EQ(cpu.count, gpu.count);
  EXPECT_EQ(cpu.finite_count, gpu.finite_count);
  EXPECT_EQ(cpu.saturation_checked_count, gpu.saturation_checked_count);
  // The GPU's products round their operands to parts of FP16, and its cache is FP16.
  const float scale = ScaleForMaxAbs(cpu.max_abs);
  EXPECT_NEAR(ScaleForMaxAbs(gpu.max_abs), scale, scale * 0x1p-10f);
  // A value beside the edge of a bin, 0.7% wide, may be in the next one.
  const double median = PercentileUpperBound(cpu, 0.5);
  EXPECT_NEAR(PercentileUpperBound(gpu, 0.5), median, 0.015 * median);
}

TEST(DeviceCalibration, GivesTheScalesOfTheCpu) {
  if (test::TestDevice() != DeviceKind::kCuda) GTEST_SKIP() << "set KV8_TEST_DEVICE=cuda";
  const test::TempDir dir;
  const CalibrationReport cpu = Measure(DeviceKind::kCpu, dir);
  const CalibrationReport gpu = Measure(DeviceKind::kCuda, dir);
  ASSERT_EQ(cpu.layers.size(), gpu.layers.size());
  EXPECT_EQ(cpu.tokens, gpu.tokens);
  for (std::size_t i = 0; i < cpu.layers.size(); ++i) {
    SCOPED_TRACE(cpu.layers[i].layer);
    ExpectAlike(cpu.layers[i].k, gpu.layers[i].k);
    ExpectAlike(cpu.layers[i].v, gpu.layers[i].v);
  }
}

/// Counts, histograms, maxima of categories and what clips: all of it.
TEST(DeviceCalibration, DocumentsThatShareAPassLeaveNoTrace) {
  if (test::TestDevice() != DeviceKind::kCuda) GTEST_SKIP() << "set KV8_TEST_DEVICE=cuda";
  const test::TempDir dir;
  const Json alone = ReportToJson(Measure(DeviceKind::kCuda, dir, PassSize{512, 1}));
  for (const PassSize& pass :
       {PassSize{192, 3}, PassSize{1024, 16}, PreferredPass(DeviceKind::kCuda)}) {
    EXPECT_EQ(ReportToJson(Measure(DeviceKind::kCuda, dir, pass)), alone)
        << pass.rows << " rows, " << pass.documents << " documents";
  }
}

}  // namespace
}  // namespace kv8
