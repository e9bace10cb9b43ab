// Opening the bundled checkpoint with warm page cache, and what is not part of it.
#include <benchmark/benchmark.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/finite.h"

namespace kv8 {
namespace {

const std::filesystem::path kModel = std::filesystem::path(KV8_SOURCE_DIR) / "models/tiny-qwen4exp";

void OpenCheckpoint(benchmark::State& state) {
  for (auto _ : state) {
    auto checkpoint = Checkpoint::Open(kModel);
    if (!checkpoint.ok()) state.SkipWithError(checkpoint.error().ToString().c_str());
    benchmark::DoNotOptimize(checkpoint);
  }
}
BENCHMARK(OpenCheckpoint)->Unit(benchmark::kMillisecond);

void HashKvWeights(benchmark::State& state) {
  const auto checkpoint = Checkpoint::Open(kModel);
  for (auto _ : state) benchmark::DoNotOptimize(checkpoint->KvWeightsSha256());
}
BENCHMARK(HashKvWeights)->Unit(benchmark::kMillisecond);

void CheckAllFinite(benchmark::State& state) {
  const auto checkpoint = Checkpoint::Open(kModel);
  std::int64_t bytes = 0;
  for (auto _ : state) {
    for (const auto& [name, view] : checkpoint->tensors()) {
      if (!CheckFinite(view, name, "").ok()) state.SkipWithError(name.c_str());
      bytes += view.bytes();
    }
  }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(CheckAllFinite)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kv8
