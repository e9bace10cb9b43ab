// What n-gram rows cost that are read from the files: one step of decode beside one with the table
// mapped, in turns on one machine.
#include <algorithm>
#include <chrono>

#include "bench_engine.h"

namespace kv8::bench {
namespace {

constexpr std::int64_t kTurns = 60, kSteps = 16, kContext = 256;

std::unique_ptr<Engine> Decoding(benchmark::State& state, std::int64_t cache) {
  EngineOptions options;
  options.table_cache = cache;
  const std::int64_t output = (kTurns + 1) * kSteps + 2;
  options.max_model_len = kContext + output;
  auto engine = OpenOrSkip(state, options);
  if (!engine || !StartOrSkip(state, *engine, 1, kContext, output)) return nullptr;
  return engine;
}

double TurnSeconds(Engine& engine) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < kSteps; ++i) engine.Step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// `cost`: the median over turns of the time with rows read over the time with the table mapped.
void TableRows(benchmark::State& state) {
  const auto mapped = Decoding(state, 0);
  const auto read = mapped ? Decoding(state, state.range(0)) : nullptr;
  if (!read) return;
  std::vector<double> ratios, seconds;
  for (auto _ : state) {
    const double alone = TurnSeconds(*mapped);
    seconds.push_back(alone / kSteps);
    ratios.push_back(TurnSeconds(*read) / alone);
  }
  const NgramTableStatistics seen = read->statistics().ngram_table;
  state.counters["cost"] = Median(ratios);
  state.counters["step_us"] = 1e6 * Median(seconds);
  state.counters["cached"] = static_cast<double>(seen.cached_rows) / static_cast<double>(seen.rows);
}

BENCHMARK(TableRows)->ArgName("cache")->UseRealTime()->Iterations(kTurns)->Arg(1)->Arg(1 << 28);

}  // namespace
}  // namespace kv8::bench
