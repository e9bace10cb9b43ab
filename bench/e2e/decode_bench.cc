// Tokens per second of decoding by context length, batch and cache type: the whole engine, one Step
// per iteration.
#include "bench_engine.h"

namespace kv8::bench {
namespace {

constexpr std::int64_t kWarmSteps = 16;

void Decode(benchmark::State& state, KvDType dtype) {
  const std::int64_t context = state.range(0);
  const auto batch = static_cast<int>(state.range(1));
  const auto steps = static_cast<std::int64_t>(state.max_iterations);
  const std::int64_t output = steps + kWarmSteps + 2;
  EngineOptions options;
  options.kv_dtype = dtype;
  options.max_num_seqs = batch;
  options.max_model_len = context + output + batch;  // the first to start decodes while others fill
  const auto engine = OpenOrSkip(state, options);
  if (!engine || !StartOrSkip(state, *engine, batch, context, output + batch)) return;
  for (std::int64_t i = 0; i < kWarmSteps; ++i) engine->Step();
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

}  // namespace
}  // namespace kv8::bench
