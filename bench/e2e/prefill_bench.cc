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

}  // namespace
}  // namespace kv8::bench
