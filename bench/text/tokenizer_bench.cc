// Bytes per second of tokenization by kind of text, and the time to load tokenizer.json. One core.
// Before anything is timed, its result is checked against the golden cases or by decoding it.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace kv8 {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;
const std::filesystem::path kRoot = KV8_SOURCE_DIR;

Result<Tokenizer> LoadBundled() {
  return Tokenizer::Load(kRoot / "models/tiny-qwen4exp/tokenizer.json");
}

const Tokenizer& Bundled() {
  static const Tokenizer tokenizer = LoadBundled().value();
  return tokenizer;
}

/// The corpus texts of one category, one after the other.
std::string CorpusText(std::string_view category) {
  std::istringstream lines(
      ReadFile(kRoot / "examples/corpus/calibration.jsonl", kMaxFileBytes).value());
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const Json record = ParseJson(line, "calibration.jsonl").value();
    if (record.at("category") == category) out += record.at("text").get<std::string>();
  }
  return out;
}

/// Every golden case gives its ids, and `text` comes back from its own.
bool IsRight(const std::string& text) {
  const Json cases =
      ReadJsonFile(kRoot / "tests/golden/tokenizer_cases.json", kMaxFileBytes).value();
  for (const Json& item : cases) {
    if (Bundled().Encode(item["text"].get<std::string>()).value() !=
        item["ids"].get<std::vector<TokenId>>()) {
      return false;
    }
  }
  return Bundled().Decode(Bundled().Encode(text).value()).value() == text;
}

void EncodeText(benchmark::State& state, const std::string& text) {
  if (!IsRight(text)) return state.SkipWithError("wrong token ids");
  std::size_t tokens = 0;
  for (auto _ : state) {
    tokens = Bundled().Encode(text).value().size();
    benchmark::DoNotOptimize(tokens);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size() * state.iterations()));
  state.counters["bytes_per_token"] = static_cast<double>(text.size()) / tokens;
}
BENCHMARK_CAPTURE(EncodeText, English, CorpusText("en"));
BENCHMARK_CAPTURE(EncodeText, Chinese, CorpusText("zh"));
BENCHMARK_CAPTURE(EncodeText, Code, CorpusText("code"));
// One piece of a megabyte: the heap, not the scan.
BENCHMARK_CAPTURE(EncodeText, OneLongWord, std::string(std::size_t{1} << 20, 'x'));

void DecodeText(benchmark::State& state) {
  const std::string text = CorpusText("en");
  if (!IsRight(text)) return state.SkipWithError("wrong token ids");
  const auto ids = Bundled().Encode(text).value();
  for (auto _ : state) benchmark::DoNotOptimize(Bundled().Decode(ids));
  state.SetBytesProcessed(static_cast<std::int64_t>(text.size() * state.iterations()));
}
BENCHMARK(DecodeText);

void Load(benchmark::State& state) {
  if (!IsRight("")) return state.SkipWithError("wrong token ids");
  for (auto _ : state) benchmark::DoNotOptimize(LoadBundled());
}
BENCHMARK(Load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kv8
