// Tokens per second of decoding by context length, batch and cache type: the whole engine, one Step
// per iteration. And what a batch gains over one sequence.
#include <algorithm>
#include <chrono>

#include "bench_engine.h"

namespace kv8::bench {
namespace {

constexpr std::int64_t kWarmSteps = 16;

/// An engine that decodes `sequences` of `context` tokens and can take `steps` steps more, or null
/// where the benchmark is skipped.
std::unique_ptr<Engine> Decoding(benchmark::State& state, KvDType dtype, int sequences,
                                 std::int64_t context, std::int64_t steps) {
  // The first to start decodes while the others fill.
  const std::int64_t output = steps + kWarmSteps + 2 + sequences;
  EngineOptions options;
  options.kv_dtype = dtype;
  options.max_num_seqs = sequences;
  options.max_model_len = context + output;
  auto engine = OpenOrSkip(state, options);
  if (!engine || !StartOrSkip(state, *engine, sequences, context, output)) return nullptr;
  for (std::int64_t i = 0; i < kWarmSteps; ++i) engine->Step();
  return engine;
}

void Decode(benchmark::State& state, KvDType dtype) {
  const auto batch = static_cast<int>(state.range(1));
  const auto engine = Decoding(state, dtype, batch, state.range(0),
                               static_cast<std::int64_t>(state.max_iterations));
  if (!engine) return;
  const EngineStatistics before = engine->statistics();
  for (auto _ : state) engine->Step();
  const EngineStatistics after = engine->statistics();
  state.SetItemsProcessed(state.iterations() * batch);
  // Everything but the forward pass: scheduling, sampling, bookkeeping.
  const double overhead = after.schedule_seconds + after.commit_seconds - before.schedule_seconds -
                          before.commit_seconds;
  state.counters["overhead"] = overhead / (overhead + after.run_seconds - before.run_seconds +
                                           after.draft_seconds - before.draft_seconds);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"context", "batch"})->UseRealTime()->Iterations(300);
  for (const int batch : {1, 2, 4, 8, 16, 17, 32, 33}) bench->Args({1024, batch});
  bench->Args({12 * 1024, 1});
}

BENCHMARK_CAPTURE(Decode, fp16, KvDType::kFp16)->Apply(Shapes);
BENCHMARK_CAPTURE(Decode, e4m3, KvDType::kE4M3)->Apply(Shapes);

constexpr std::int64_t kTurns = 20;
constexpr std::int64_t kTurnSteps = 16;
constexpr std::int64_t kTurnWarmSteps = 4;  // after the other engine's turn caches hold its data

double TurnSeconds(Engine& engine) {
  for (std::int64_t i = 0; i < kTurnWarmSteps; ++i) engine.Step();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < kTurnSteps; ++i) engine.Step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Tokens per second of `batch` sequences over those of one, at a context of 1,024: the median over
/// turns. In a turn both engines run within a fifth of a second of each other, so that a machine
/// whose speed changes changes both. The time that is printed is a turn of both.
void BatchGain(benchmark::State& state, KvDType dtype) {
  constexpr std::int64_t kContext = 1024, kSteps = kTurns * (kTurnWarmSteps + kTurnSteps);
  const auto batch = static_cast<int>(state.range(0));
  const auto one = Decoding(state, dtype, 1, kContext, kSteps);
  const auto many = one ? Decoding(state, dtype, batch, kContext, kSteps) : nullptr;
  if (!many) return;
  std::vector<double> gains;
  for (auto _ : state) {
    const double alone = TurnSeconds(*one);
    gains.push_back(batch * alone / TurnSeconds(*many));
  }
  const auto middle = gains.begin() + static_cast<std::ptrdiff_t>(gains.size() / 2);
  std::nth_element(gains.begin(), middle, gains.end());
  state.counters["gain"] = *middle;
}

void Batches(benchmark::internal::Benchmark* bench) {
  bench->ArgName("batch")->UseRealTime()->Iterations(kTurns)->Arg(4)->Arg(16)->Arg(32);
}

BENCHMARK_CAPTURE(BatchGain, fp16, KvDType::kFp16)->Apply(Batches);
BENCHMARK_CAPTURE(BatchGain, e4m3, KvDType::kE4M3)->Apply(Batches);

}  // namespace
}  // namespace kv8::bench
