// How many drafts are accepted on continuations of the evaluation corpus, by position, and what a
// draft and a verifying row cost as shares of a plain decode step. One request at a time, until the
// model ends its text.
//
// Greedy continuations fall into repeats, which are easy to draft; texts drawn at temperature 1 are
// like those the model was trained on.
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

/// What the steps after the first token took.
struct Costs {
  double steps = 0;
  double rows = 0;
  double drafts = 0;
  double run_seconds = 0;
  double draft_seconds = 0;

  double run_seconds_per_step() const { return run_seconds / steps; }
};

void Continue(Engine& engine, Request request, Costs& costs) {
  bool first = false;
  bool done = false;
  const auto note_first = [&first](const TokenEvent&) {
    first = true;
    return TokenReply::kGoOn;
  };
  const auto note_done = [&done](const Completion&) { done = true; };
  engine.Submit(std::move(request), note_first, note_done).value();
  while (!first) engine.Step();
  const EngineStatistics before = engine.statistics();
  while (!done) engine.Step();
  const EngineStatistics after = engine.statistics();
  costs.steps += static_cast<double>(after.steps - before.steps);
  costs.rows += static_cast<double>(after.rows - before.rows);
  costs.drafts += static_cast<double>(after.speculation.drafted - before.speculation.drafted);
  costs.run_seconds += after.run_seconds - before.run_seconds;
  costs.draft_seconds += after.draft_seconds - before.draft_seconds;
}

Costs ContinueAll(Engine& engine, float temperature) {
  Costs costs;
  std::uint64_t seed = 0;
  for (const auto& prompt : Prompts()) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = kOutputTokens;
    request.sampling.temperature = temperature;
    request.sampling.seed = seed++;
    Continue(engine, std::move(request), costs);
  }
  return costs;
}

std::unique_ptr<Engine> Open(benchmark::State& state, int drafts, DraftSampling sampling) {
  EngineOptions options;
  options.speculative_tokens = drafts;
  options.draft_sampling = sampling;
  options.max_model_len = static_cast<std::int64_t>(kMaxPromptTokens) + kOutputTokens;
  return OpenOrSkip(state, options);
}

void CountAcceptance(benchmark::State& state, const SpeculationStats& stats) {
  const auto steps = static_cast<double>(stats.steps);
  state.counters["accepted_per_step"] = static_cast<double>(stats.accepted) / steps;
  // Of the steps that drafted so far, how many kept the draft of this place.
  for (std::size_t i = 0; i < stats.accepted_at.size(); ++i) {
    state.counters["accepted_" + std::to_string(i + 1)] =
        static_cast<double>(stats.accepted_at[i]) / static_cast<double>(stats.drafted_at[i]);
  }
}

void Speculate(benchmark::State& state, float temperature, DraftSampling sampling) {
  const auto plain_engine = Open(state, 0, sampling);
  const auto engine = Open(state, static_cast<int>(state.range(0)), sampling);
  if (!plain_engine || !engine) return;
  const double plain_step = ContinueAll(*plain_engine, temperature).run_seconds_per_step();
  Costs costs;
  for (auto _ : state) costs = ContinueAll(*engine, temperature);
  CountAcceptance(state, engine->statistics().speculation);
  const double further_rows = costs.rows / costs.steps - 1;
  state.counters["plain_step_us"] = 1e6 * plain_step;
  state.counters["draft_cost"] = costs.draft_seconds / costs.drafts / plain_step;
  state.counters["verify_row_cost"] =
      (costs.run_seconds_per_step() / plain_step - 1) / further_rows;
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("drafts")->Arg(1)->Arg(3)->Arg(5);
  bench->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(Speculate, greedy, 0.0f, DraftSampling::kGreedy)->Apply(Shapes);
BENCHMARK_CAPTURE(Speculate, sampled, 1.0f, DraftSampling::kGreedy)->Apply(Shapes);
BENCHMARK_CAPTURE(Speculate, sampled_drafts_too, 1.0f, DraftSampling::kProbabilistic)
    ->Apply(Shapes);

}  // namespace
}  // namespace kv8::bench
