#include "calib/calibrator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "calib/partial_state.h"
#include "unit/calib/calibrator_fixture.h"

namespace kv8 {
namespace {

using namespace test;
using testing::HasSubstr;

TEST_F(CalibratorTest, MeasuresEveryLayerAndSide) {
  Bench bench;
  const auto report = Calibrate(bench.inputs(), Options(), kGoOn);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->documents, 5u);
  EXPECT_FALSE(report->partial_corpus);
  std::vector<int> ids;
  for (const LayerStatistics& layer : report->layers) {
    ids.push_back(layer.layer);
    const std::uint64_t rows = report->tokens - (layer.layer == 12 ? report->documents : 0);
    for (const SideStatistics* side : {&layer.k, &layer.v}) {
      EXPECT_EQ(side->count, rows * 2 * 64);
      EXPECT_EQ(side->finite_count, side->count);
      EXPECT_EQ(side->saturation_checked_count, side->count);
      EXPECT_GT(side->max_abs, 0.01f);
      EXPECT_EQ(side->shard_max_abs.size(), 3u);
    }
  }
  EXPECT_EQ(ids, (std::vector<int>{3, 7, 11, 12}));
  EXPECT_FALSE(std::filesystem::exists(PartialPath(Options().output)));
  const auto read = ReadReport(Options().output);
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(ReportToJson(*read), ReportToJson(*report));
}

TEST_F(CalibratorTest, ThreadsLeaveNoTrace) {
  EXPECT_EQ(Measured(Options("one.json"), 1), Measured(Options("three.json"), 3));
}

TEST_F(CalibratorTest, SaturationIsWhatTheCacheStoreClips) {
  Bench bench;
  auto options = Options();
  options.saturation_tokens = 40;
  const auto report = Calibrate(bench.inputs(), options, kGoOn);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->layers[0].k.saturation_checked_count % (2 * 64), 0u);
  EXPECT_EQ(report->layers[0].k.saturation_checked_count, 40u * 2 * 64);
  EXPECT_EQ(report->layers[0].k.saturated_count, 0u);  // nothing before layer 3 was quantised
}

TEST_F(CalibratorTest, WithoutASaturationPassTheRatioIsUnknown) {
  auto options = Options();
  options.saturation_tokens = 0;
  const std::string content = Measured(options);
  EXPECT_THAT(content, HasSubstr("\"saturation_ratio\": null"));
  EXPECT_THAT(content, testing::Not(HasSubstr("\"saturation_ratio\": 0")));
}

TEST_F(CalibratorTest, SeveralFilesCountLikeOne) {
  const auto documents = Documents();
  test::WriteFile(dir_ / "a.jsonl", documents[0] + documents[1]);
  test::WriteFile(dir_ / "b.jsonl", documents[2] + documents[3] + documents[4]);
  auto options = Options("several.json");
  options.corpus = {dir_ / "a.jsonl", dir_ / "b.jsonl"};
  auto one = *ParseJson(Measured(Options("one.json")), "one");
  auto several = *ParseJson(Measured(options), "several");
  EXPECT_EQ(several["input_files"].size(), 2u);
  one.erase("input_files");
  several.erase("input_files");
  EXPECT_EQ(one, several);
}

TEST_F(CalibratorTest, MergedShardsCountLikeTheWhole) {
  const auto documents = Documents();
  test::WriteFile(dir_ / "a.jsonl", documents[0] + documents[1]);
  test::WriteFile(dir_ / "b.jsonl", documents[2] + documents[3] + documents[4]);
  std::vector<std::filesystem::path> shards;
  for (const std::string name : {"a", "b"}) {
    auto options = Options(name + ".json");
    options.corpus = {dir_ / (name + ".jsonl")};
    options.saturation_tokens = 0;  // a merge cannot redo it with the merged scales
    Measured(options);
    shards.push_back(options.output);
  }
  auto options = Options();
  options.saturation_tokens = 0;
  auto whole = *ParseJson(Measured(options), "whole");
  ASSERT_TRUE(MergeReportFiles(shards, dir_ / "merged.json").ok());
  auto merged = *ParseJson(Content(dir_ / "merged.json"), "merged");
  whole.erase("input_files");
  merged.erase("input_files");
  for (Json* report : {&whole, &merged}) {
    for (auto& entry : (*report)["tensors"]) entry.erase("saturation_is_upper_bound");
  }
  EXPECT_EQ(merged, whole);
}

TEST_F(CalibratorTest, MergeRefusesAnExistingOutput) {
  test::WriteFile(dir_ / "report.json", "mine");
  const auto merged = MergeReportFiles({dir_ / "absent.json"}, dir_ / "report.json");
  ASSERT_FALSE(merged.ok());
  EXPECT_EQ(merged.error().code, Code::kAlreadyExists);
}

TEST_F(CalibratorTest, GoesOnAfterAStopAtAnyDocument) {
  const std::string whole = Measured(Options("whole.json"));
  for (int stop_at = 1;; ++stop_at) {
    auto options = Options("report" + std::to_string(stop_at) + ".json");
    options.save_interval = std::chrono::seconds(0);
    int calls = 0;
    Bench bench;
    bench.pass = PassSize{512, 1};
    const auto stopped = Calibrate(bench.inputs(), options,
                                   [&](const CalibrationProgress&) { return ++calls < stop_at; });
    if (stopped.ok()) {
      EXPECT_GT(stop_at, 10) << "both passes over 5 documents were stopped";
      return;
    }
    EXPECT_EQ(stopped.error().code, Code::kCancelled);
    EXPECT_FALSE(std::filesystem::exists(options.output));
    std::optional<std::uint64_t> first_tokens;
    std::string first_pass;
    const auto resumed =
        Calibrate(bench.inputs(), options, [&](const CalibrationProgress& progress) {
          if (!first_tokens) first_pass = progress.pass;
          first_tokens = first_tokens.value_or(progress.tokens_done);
          return true;
        });
    ASSERT_TRUE(resumed.ok()) << resumed.error().ToString();
    // Call 1 comes before the first document, call 2 in it, call 3 after it was saved.
    if (first_pass == "ranges") {
      EXPECT_EQ(*first_tokens > 0, stop_at >= 3);
    }
    EXPECT_EQ(Content(options.output), whole) << "stopped at call " << stop_at;
  }
}

TEST_F(CalibratorTest, GoesOnAfterAKillAtAnyMoment) {
  const auto start = std::chrono::steady_clock::now();
  const std::string whole = Measured(Options("whole.json"));
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  std::mt19937 random(5);
  std::uniform_int_distribution<long> moment(0, duration.count());
  for (int round = 0; round < 6; ++round) {
    auto options = Options("killed" + std::to_string(round) + ".json");
    options.save_interval = std::chrono::seconds(0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Bench bench;
      ::_exit(Calibrate(bench.inputs(), options, kGoOn).ok() ? 0 : 1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    if (std::filesystem::exists(options.output)) {
      EXPECT_EQ(Content(options.output), whole);  // it was faster than the kill
    } else {
      EXPECT_EQ(Measured(options), whole);
    }
  }
}

TEST_F(CalibratorTest, AnUnfinishedRunOfOtherInputsIsRefusedUntilRestarted) {
  auto options = Options();
  Bench bench;
  ASSERT_FALSE(
      Calibrate(bench.inputs(), options, [](const CalibrationProgress&) { return false; }).ok());
  options.max_tokens = 20;
  const auto refused = Calibrate(bench.inputs(), options, kGoOn);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kMismatch);
  EXPECT_THAT(refused.error().what, HasSubstr("max_tokens"));
  EXPECT_THAT(refused.error().remedy, HasSubstr("--restart"));
  options.restart = true;
  const auto report = Calibrate(bench.inputs(), options, kGoOn);
  ASSERT_TRUE(report.ok()) << report.error().ToString();
  EXPECT_EQ(report->tokens, 20u);
  EXPECT_TRUE(report->partial_corpus);
}

TEST_F(CalibratorTest, AChangedCorpusIsAnotherInput) {
  Bench bench;
  ASSERT_FALSE(
      Calibrate(bench.inputs(), Options(), [](const CalibrationProgress&) { return false; }).ok());
  test::WriteFile(dir_ / "corpus.jsonl", Joined(Documents()) + Document("en", "More."));
  const auto refused = Calibrate(bench.inputs(), Options(), kGoOn);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().what, HasSubstr("corpus_sha256"));
}

TEST_F(CalibratorTest, BadInputIsRefusedBeforeTheFirstToken) {
  const ProgressFn never = [](const CalibrationProgress&) {
    ADD_FAILURE() << "work was done";
    return false;
  };
  Bench bench;
  const auto expect = [&](const CalibrationOptions& options, Code code, std::string_view where) {
    const auto report = Calibrate(bench.inputs(), options, never);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, code) << report.error().ToString();
    EXPECT_THAT(report.error().where, HasSubstr(std::string(where)));
    EXPECT_FALSE(std::filesystem::exists(PartialPath(options.output)));
  };
  auto options = Options();
  options.corpus = {};
  expect(options, Code::kInvalidArgument, "--corpus");
  options = Options();
  options.max_tokens = 0;
  expect(options, Code::kInvalidArgument, "--max-tokens");
  options = Options();
  options.truncate = 16385;
  expect(options, Code::kInvalidArgument, "--truncate");
  options = Options();
  options.corpus = {dir_ / "absent.jsonl"};
  expect(options, Code::kNotFound, "absent.jsonl");
  expect(Options("absent/report.json"), Code::kNotFound, "absent");
  test::WriteFile(dir_ / "exists.json", "mine");
  expect(Options("exists.json"), Code::kAlreadyExists, "exists.json");
  EXPECT_EQ(Content(dir_ / "exists.json"), "mine");
  test::WriteFile(dir_ / "corpus.jsonl", Joined(Documents()) + "\xFF\n");
  expect(Options(), Code::kCorrupt, "corpus.jsonl:6");
}

TEST_F(CalibratorTest, ASideWithoutValuesHasNoScale) {
  test::WriteFile(dir_ / "corpus.jsonl", "{\"token_ids\": [300]}\n");
  Bench bench;
  const auto report = Calibrate(bench.inputs(), Options(), kGoOn);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_THAT(report.error().what, HasSubstr("layer 12 K saw no value"));
  EXPECT_FALSE(std::filesystem::exists(PartialPath(Options().output)));
}

TEST_F(CalibratorTest, AFullDiskLeavesNothingHalfWritten) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);  // so that write fails with EFBIG instead
    const rlimit limit = {256, 256};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Bench bench;
    const auto report = Calibrate(bench.inputs(), Options(), kGoOn);
    ::_exit(!report.ok() && report.error().code == Code::kIo ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_EQ(entry.path().filename(), "corpus.jsonl");
  }
}

}  // namespace
}  // namespace kv8
