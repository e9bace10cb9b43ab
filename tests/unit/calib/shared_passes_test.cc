// Documents that share passes: no number depends on which do.
#include <gtest/gtest.h>

#include "calib/partial_state.h"
#include "unit/calib/calibrator_fixture.h"

namespace kv8 {
namespace {

using namespace test;
using SharedPasses = CalibratorTest;

/// A document of `length` ids that no other begins with.
std::string IdDocument(std::string_view category, int length) {
  Json ids = Json::array();
  for (int i = 0; i < length; ++i) ids.push_back(100 + (i * 31 + length * 7) % 5000);
  return Json{{"category", category}, {"token_ids", ids}}.dump() + "\n";
}

/// Twenty short ones, odd lengths, one token, whole pages, and some longer than a pass.
std::string ManyDocuments() {
  std::string all;
  for (const int length : {1, 63, 64, 65, 300, 2, 128, 129, 1, 777, 31}) {
    all += IdDocument(length % 2 == 0 ? "even" : "odd", length);
  }
  for (int i = 0; i < 20; ++i) all += IdDocument("short", 3 + i);
  return all;
}

TEST_F(SharedPasses, LeaveNoTrace) {
  WriteFile(dir_ / "corpus.jsonl", ManyDocuments());
  const std::string alone = Measured(Options("alone.json"), 1, PassSize{64, 1});
  int runs = 0;
  for (const PassSize& pass : {PassSize{64, 16}, PassSize{192, 3}, PassSize{256, 16},
                               PassSize{512, 1}, PassSize{4096, 64}}) {
    const auto options = Options(std::to_string(++runs) + ".json");
    EXPECT_EQ(Measured(options, 1, pass), alone) << pass.rows << " rows, " << pass.documents;
  }
}

TEST_F(SharedPasses, AreFull) {
  WriteFile(dir_ / "corpus.jsonl", ManyDocuments());
  Bench bench;
  bench.pass = PassSize{128, 32};
  auto options = Options();
  options.saturation_tokens = 0;
  std::vector<std::uint64_t> done;
  const auto report = Calibrate(bench.inputs(), options, [&](const CalibrationProgress& progress) {
    done.push_back(progress.tokens_done);
    return true;
  });
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  // Only what is left of a pass behind the ends of documents may stay empty, less than a page.
  for (std::size_t i = 1; i + 1 < done.size(); ++i) EXPECT_GT(done[i] - done[i - 1], 128u - 64);
  EXPECT_EQ(done.back(), report->tokens);
}

TEST_F(SharedPasses, ASaveWaitsForUnfinishedDocuments) {
  WriteFile(dir_ / "corpus.jsonl", ManyDocuments());
  const std::string whole = Measured(Options("whole.json"));
  for (const int stop_at : {4, 9, 14, 21}) {
    auto options = Options("stopped" + std::to_string(stop_at) + ".json");
    options.save_interval = std::chrono::milliseconds(1);
    Bench bench;
    bench.pass = PassSize{128, 16};
    int calls = 0;
    const auto stopped = Calibrate(bench.inputs(), options,
                                   [&](const CalibrationProgress&) { return ++calls < stop_at; });
    ASSERT_FALSE(stopped.ok());
    EXPECT_EQ(stopped.error().code, Code::kCancelled);
    const auto partial =
        *ParseJson(Content(PartialPath(options.output)), "the unfinished run")->find("position");
    EXPECT_GT(partial["documents"].get<int>() + partial["pass"].get<int>(), 0);
    EXPECT_EQ(Measured(options, 1, PassSize{512, 2}), whole) << "stopped at call " << stop_at;
  }
}

}  // namespace
}  // namespace kv8
