// How many drafts are accepted on texts of the evaluation corpus, and what drafting and verifying
// cost. One request at a time, greedy.
#include <algorithm>
#include <fstream>
#include <string>

#include "base/json.h"
#include "bench_engine.h"
#include "text/tokenizer.h"

namespace kv8::bench {
namespace {

constexpr std::size_t kPrompts = 24;
constexpr std::size_t kMaxPromptTokens = 512;
constexpr std::int64_t kOutputTokens = 64;

/// The beginnings of the first texts.
std::vector<std::vector<TokenId>> Prompts() {
  const std::filesystem::path root = KV8_SOURCE_DIR;
  const auto tokenizer = Tokenizer::Load(root / "models/tiny-qwen4exp/tokenizer.json").value();
  std::ifstream lines(root / "examples/corpus/evaluation.jsonl");
  std::vector<std::vector<TokenId>> prompts;
  for (std::string line; prompts.size() < kPrompts && std::getline(lines, line);) {
    const Json record = ParseJson(line, "evaluation.jsonl").value();
    auto ids = tokenizer.Encode(record.at("text").get<std::string>()).value();
    ids.resize(std::min(ids.size() * 2 / 3, kMaxPromptTokens));
    if (!ids.empty()) prompts.push_back(std::move(ids));
  }
  return prompts;
}

void Speculate(benchmark::State& state) {
  EngineOptions options;
  options.speculative_tokens = static_cast<int>(state.range(0));
  options.max_model_len = static_cast<std::int64_t>(kMaxPromptTokens) + kOutputTokens;
  const auto engine = OpenOrSkip(state, options);
  if (!engine) return;
  double decode_seconds = 0;
  std::int64_t tokens = 0;
  for (auto _ : state) {
    for (const auto& prompt : Prompts()) {
      Request request;
      request.prompt = prompt;
      request.max_tokens = kOutputTokens;
      request.ignore_eos = true;
      const Completion done = engine->Generate(request).value();
      decode_seconds += done.timings.decode_seconds;
      tokens += done.usage.completion_tokens - 1;
    }
  }
  const EngineStatistics s = engine->statistics();
  const auto steps = static_cast<double>(s.speculation.steps);
  state.counters["accepted_per_step"] = static_cast<double>(s.speculation.accepted) / steps;
  state.counters["decode_tokens_per_s"] = static_cast<double>(tokens) / decode_seconds;
  state.counters["us_per_step"] = 1e6 * decode_seconds / steps;
  state.counters["draft_share"] = s.draft_seconds / (s.draft_seconds + s.run_seconds);
}
BENCHMARK(Speculate)->ArgName("drafts")->DenseRange(1, 5)->Iterations(1)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace kv8::bench
