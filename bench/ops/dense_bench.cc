// Experts, hyper-connections and the n-gram memory's norms at the bundled model's dimensions.
// Arguments: rows, threads.
//
// "of_fma_peak": the products' multiply-adds over what the threads could do with operands in
// registers.
#include <benchmark/benchmark.h>

#include "bench_operands.h"
#include "machine_peak.h"
#include "numeric/half.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "support/op_scratch.h"

namespace kv8 {
namespace {

constexpr std::int64_t kHidden = 192;

struct Bf16Weight {
  Bf16Weight(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
    for (const float w : RandomOperand(rows * cols, seed)) {
      codes.push_back(EncodeBf16(w / std::sqrt(static_cast<float>(cols))));
    }
    view = {WeightFormat::kBf16, rows, cols, reinterpret_cast<const std::byte*>(codes.data())};
  }
  std::vector<std::uint16_t> codes;
  Weight view;
};

void Report(benchmark::State& state, double macs) {
  state.counters["of_fma_peak"] =
      benchmark::Counter(macs / (static_cast<double>(state.range(1)) * PeakMacsPerSecond()),
                         benchmark::Counter::kIsIterationInvariantRate);
}

void BM_Moe(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  const MoeConfig config{16, 4, 64, 64};
  const Bf16Weight router(16, kHidden, 1), gate_up(16 * 128, kHidden, 2), down(16 * kHidden, 64, 3);
  const Bf16Weight gate(64, kHidden, 4), up(64, kHidden, 5), shared_down(kHidden, 64, 6);
  const Bf16Weight shared_gate(1, kHidden, 7);
  const MoeWeights weights{
      router.view,
      ExpertsOf(gate_up.view, config.experts, 0, config.expert_dim),
      ExpertsOf(gate_up.view, config.experts, config.expert_dim, config.expert_dim),
      ExpertsOf(down.view, config.experts, 0, kHidden),
      gate.view,
      up.view,
      shared_down.view,
      shared_gate.view};
  const std::vector<float> x = RandomOperand(rows * kHidden, 8);
  std::vector<float> out(x.size()), expected(x.size());
  ThreadPool pool(static_cast<int>(state.range(1)));
  const auto run = [&](MoeFn& moe, std::vector<float>& y) {
    moe(test::ContextOf(pool), config, weights, ConstMatrix(x.data(), rows, kHidden),
        Matrix(y.data(), rows, kHidden));
  };
  run(reference::Moe, expected);
  run(simd::Moe, out);
  RequireClose(out, expected);
  for (auto _ : state) run(simd::Moe, out);
  Report(state, static_cast<double>(rows * kHidden) * (17 + 5 * (128 + 64)));
}

void BM_HyperMix(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = 4 * kHidden;
  const Bf16Weight down(32, width, 1), up(width, 32, 2), inject(4, width, 3);
  const std::vector<float> gain = RandomOperand(width, 4);
  const HyperConnectionWeights weights{gain, down.view, up.view, inject.view};
  const std::vector<float> streams = RandomOperand(rows * width, 5);
  std::vector<float> x(static_cast<std::size_t>(rows * kHidden)), expected = x;
  std::vector<float> gates(static_cast<std::size_t>(rows * 4));
  ThreadPool pool(static_cast<int>(state.range(1)));
  const auto run = [&](HyperMixFn& mix, std::vector<float>& y) {
    mix(test::ContextOf(pool), ConstMatrix(streams.data(), rows, width), weights, 4, 1e-6f,
        Matrix(y.data(), rows, kHidden), Matrix(gates.data(), rows, 4));
  };
  run(reference::HyperMix, expected);
  run(simd::HyperMix, x);
  RequireClose(x, expected);
  for (auto _ : state) run(simd::HyperMix, x);
  Report(state, static_cast<double>(rows * width) * (32 + 32 + 4));
}

/// The cost of a parallel loop itself, which every op weighs against the work it shares out.
void BM_ParallelFor(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(1)));
  for (auto _ : state) {
    pool.ParallelFor(state.range(0), 1, [](std::int64_t begin, std::int64_t end) {
      benchmark::DoNotOptimize(begin);
      benchmark::DoNotOptimize(end);
    });
  }
}

BENCHMARK(BM_Moe)->ArgsProduct({{1, 4, 16, 64, 256}, {1, 2}})->UseRealTime();
BENCHMARK(BM_HyperMix)->ArgsProduct({{1, 4, 16, 64, 256}, {1, 2}})->UseRealTime();
BENCHMARK(BM_ParallelFor)->Args({2, 2})->UseRealTime();

}  // namespace
}  // namespace kv8
