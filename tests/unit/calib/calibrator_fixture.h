// Calibrations of the bundled model over a few short documents.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "calib/calibrator.h"
#include "support/temp_dir.h"

namespace kv8::test {

inline const std::filesystem::path kModelDir = KV8_SOURCE_DIR "/models/tiny-qwen4exp";

inline const ProgressFn kGoOn = [](const CalibrationProgress&) { return true; };

/// The bundled model, opened for one run.
struct Bench {
  explicit Bench(int threads = 1)
      : model(LoadedModel::Open({.dir = kModelDir, .with_draft = std::nullopt}).value()),
        tokenizer(Tokenizer::Load(kModelDir / "tokenizer.json").value()),
        team(threads) {}

  CalibrationInputs inputs() {
    return {
        .model = model, .tokenizer = tokenizer, .backend = "simd", .threads = team, .pass = pass};
  }

  LoadedModel model;
  Tokenizer tokenizer;
  int team;
  std::optional<PassSize> pass;
};

inline std::string Document(std::string_view category, std::string_view text) {
  return Json{{"category", category}, {"text", text}}.dump() + "\n";
}

/// Documents below, at and above one 64-token chunk, and one of a single token, which the draft
/// layer never sees.
inline std::vector<std::string> Documents() {
  Json ids = {7};
  for (int i = 1; i < 130; ++i) ids.push_back(100 + i * 31 % 5000);
  return {Document("en", "The table shows 294 crates, 33 of which came from Perth at noon."),
          Document("code", "for (int i = 0; i < n; ++i) total += values[i];"),
          Json{{"token_ids", ids}}.dump() + "\n", "{\"token_ids\": [300]}\n",
          Document("en", "Who found my lamp? asked Rosa Duarte.")};
}

inline std::string Joined(const std::vector<std::string>& documents) {
  std::string all;
  for (const std::string& document : documents) all += document;
  return all;
}

class CalibratorTest : public testing::Test {
 protected:
  CalibratorTest() { WriteFile(dir_ / "corpus.jsonl", Joined(Documents())); }

  CalibrationOptions Options(const std::string& output = "report.json") const {
    CalibrationOptions options;
    options.corpus = {dir_ / "corpus.jsonl"};
    options.output = dir_ / output;
    return options;
  }

  /// The report of an uninterrupted run, as bytes.
  std::string Measured(const CalibrationOptions& options, int threads = 1,
                       std::optional<PassSize> pass = std::nullopt) {
    Bench bench(threads);
    bench.pass = pass;
    const auto report = Calibrate(bench.inputs(), options, kGoOn);
    EXPECT_TRUE(report.ok()) << report.error().ToString();
    return Content(options.output);
  }

  static std::string Content(const std::filesystem::path& path) {
    auto content = ReadFile(path, 1 << 28);
    EXPECT_TRUE(content.ok()) << content.error().ToString();
    return content.ok() ? *content : "";
  }

  TempDir dir_;
};

}  // namespace kv8::test
