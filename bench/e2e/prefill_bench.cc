// Tokens per second of prefill by prompt length, and the cost of a prompt that was seen before.
#include "bench_engine.h"

namespace kv8::bench {
namespace {

void Prefill(benchmark::State& state, KvDType dtype) {
  EngineOptions options;
  options.kv_dtype = dtype;
  options.max_model_len = state.range(0) + 1;
  const auto engine = OpenOrSkip(state, options);
  if (!engine) return;
  unsigned seed = 0;
  for (auto _ : state) {
    Request request;
    request.prompt = SomeIds(state.range(0), seed++);
    request.max_tokens = 1;
    benchmark::DoNotOptimize(engine->Generate(request));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK_CAPTURE(Prefill, fp16, KvDType::kFp16)
    ->ArgName("prompt")
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(12 * 1024)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Prefill, e4m3, KvDType::kE4M3)
    ->ArgName("prompt")
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(12 * 1024)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// A prompt whose beginning is cached: everything but what follows the last page boundary.
void PrefixHit(benchmark::State& state, int drafts) {
  EngineOptions options;
  options.max_model_len = state.range(0) + 1;
  options.speculative_tokens = drafts;
  options.prefix_cache_memory = std::int64_t{64} << 20;
  const auto engine = OpenOrSkip(state, options);
  if (!engine) return;
  Request request;
  request.prompt = SomeIds(state.range(0), 1);
  request.max_tokens = 1;
  benchmark::DoNotOptimize(engine->Generate(request));
  for (auto _ : state) benchmark::DoNotOptimize(engine->Generate(request));
  const auto statistics = engine->statistics();
  if (statistics.prefix_hits == 0) state.SkipWithError("no hit");
  state.counters["cached"] =
      static_cast<double>(statistics.cached_tokens) / static_cast<double>(statistics.prefix_hits);
}
BENCHMARK_CAPTURE(PrefixHit, plain, 0)
    ->ArgName("prompt")
    ->Arg(12 * 1024)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(PrefixHit, draft3, 3)
    ->ArgName("prompt")
    ->Arg(12 * 1024)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kv8::bench
