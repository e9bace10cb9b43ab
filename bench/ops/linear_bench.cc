// Matrix products with bf16 weights at the bundled model's shapes. Arguments: rows, K, N, threads.
//
// "of_fma_peak": multiply-adds over what the threads could do with operands in registers.
// "of_read_rate": weight bytes over what the threads could read from a working set of the same
// size; the bound of one row, whose weights are all of a model's, not one product's.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>

#include "bench_operands.h"
#include "machine_peak.h"
#include "numeric/half.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "support/op_scratch.h"

namespace kv8 {
namespace {

// A decode step of the bundled model reads about this much weight before it comes round again.
constexpr std::int64_t kModelBytes = 17'000'000;

void BM_Linear(benchmark::State& state) {
  const std::int64_t rows = state.range(0), k = state.range(1), n = state.range(2);
  const auto threads = static_cast<double>(state.range(3));
  const std::int64_t copies = rows == 1 ? std::max<std::int64_t>(1, kModelBytes / (2 * k * n)) : 1;
  std::vector<std::uint16_t> codes;
  for (const float w : RandomOperand(k * n, 1)) codes.push_back(EncodeBf16(w));
  std::vector<std::uint16_t> weights;
  for (std::int64_t i = 0; i < copies; ++i) {
    weights.insert(weights.end(), codes.begin(), codes.end());
  }
  std::vector<float> x = RandomOperand(rows * k, 2);
  // No sum larger than those of K 768: FP32 rounds larger ones by more than RequireClose allows.
  const float scale = std::sqrt(std::min(1.0f, 768.0f / static_cast<float>(k)));
  for (float& value : x) value *= scale;
  std::vector<float> out(static_cast<std::size_t>(rows * n));
  std::vector<float> expected = out;
  ThreadPool pool(static_cast<int>(threads));
  const auto run = [&](LinearFn& linear, std::int64_t copy, std::vector<float>& y) {
    const auto* data = reinterpret_cast<const std::byte*>(weights.data() + copy * k * n);
    const LinearPart part{{WeightFormat::kBf16, n, k, data}, Matrix(y.data(), rows, n)};
    linear(test::ContextOf(pool), ConstMatrix(x.data(), rows, k), {&part, 1});
  };
  run(reference::Linear, 0, expected);
  run(simd::Linear, 0, out);
  RequireClose(out, expected);
  std::int64_t copy = 0;
  for (auto _ : state) {
    run(simd::Linear, copy, out);
    copy = (copy + 1) % copies;
  }
  const double macs = static_cast<double>(rows * k * n);
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["of_fma_peak"] = benchmark::Counter(macs / (threads * PeakMacsPerSecond()), rate);
  if (rows != 1) return;
  const double read_rate = threads * ReadBytesPerSecond(copies * 2 * k * n);
  state.counters["of_read_rate"] =
      benchmark::Counter(2.0 * static_cast<double>(k * n) / read_rate, rate);
}
void Shapes(benchmark::internal::Benchmark* b) {
  for (const int threads : {1, 2}) {
    for (const int rows : {1, 4, 16, 64, 256}) {
      for (const auto& [k, n] :
           {std::pair{192, 784}, {192, 1536}, {768, 36}, {32, 768}, {64, 192}}) {
        b->Args({rows, k, n, threads});
      }
    }
    b->Args({1, 192, 6144, threads});
    b->Args({64, 2560, 640, threads});
  }
}
BENCHMARK(BM_Linear)->Apply(Shapes)->UseRealTime();

}  // namespace
}  // namespace kv8
