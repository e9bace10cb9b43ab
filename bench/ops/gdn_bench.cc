// Gated DeltaNet at the bundled model's dimensions. Arguments: rows, threads.
//
// "macs_per_thread": multiply-adds of the recurrence alone, 3 per state element and row, per
// thread.
#include <benchmark/benchmark.h>

#include "bench_operands.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "support/op_scratch.h"

namespace kv8 {
namespace {

void RunGdn(benchmark::State& state, GdnConfig config) {
  const std::int64_t rows = state.range(0), channels = config.conv_channels();
  const std::int64_t heads = config.value_heads, width = heads * config.value_dim;
  const std::vector<float> conv_weights = RandomOperand(channels * config.conv_kernel, 1),
                           decay(static_cast<std::size_t>(heads), -0.1f),
                           dt_bias = RandomOperand(heads, 2),
                           norm = RandomOperand(config.value_dim, 3);
  const GdnWeights weights{conv_weights, decay, dt_bias, norm};
  const std::vector<float> qkv = RandomOperand(rows * channels, 4);
  const std::vector<float> z = RandomOperand(rows * width, 5);
  const std::vector<float> a = RandomOperand(rows * heads, 6), b = RandomOperand(rows * heads, 7);
  const GdnInputs in{{qkv.data(), rows, channels},
                     {z.data(), rows, width},
                     {b.data(), rows, heads},
                     {a.data(), rows, heads}};
  ThreadPool pool(static_cast<int>(state.range(1)));
  const auto run = [&](GdnFn& gdn, std::vector<float>& conv, std::vector<float>& s,
                       std::vector<float>& out) {
    const GdnSlice slice{0, rows, conv, s};
    gdn(test::ContextOf(pool), config, weights, in, {&slice, 1}, 1e-6f,
        Matrix(out.data(), rows, width));
  };
  std::vector<float> conv((config.conv_kernel - 1) * static_cast<std::size_t>(channels));
  std::vector<float> s(static_cast<std::size_t>(width * config.key_dim));
  std::vector<float> out(static_cast<std::size_t>(rows * width));
  std::vector<float> expected_conv = conv, expected_s = s, expected = out;
  run(reference::GdnDecode, expected_conv, expected_s, expected);
  run(simd::GdnPrefill, conv, s, out);
  RequireClose(out, expected);
  RequireClose(s, expected_s);
  for (auto _ : state) run(simd::GdnPrefill, conv, s, out);
  const double macs = 3.0 * double(rows * width) * config.key_dim;
  state.counters["us_per_row"] =
      benchmark::Counter(double(rows) * 1e-6, benchmark::Counter::kIsIterationInvariantRate |
                                                  benchmark::Counter::kInvert);
  state.counters["macs_per_thread"] = benchmark::Counter(
      macs / double(state.range(1)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(RunGdn, bundled, GdnConfig{4, 8, 32, 32, 4})
    ->ArgsProduct({{1, 512}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(RunGdn, released, GdnConfig{16, 48, 128, 128, 4})
    ->ArgsProduct({{1, 64}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace kv8
