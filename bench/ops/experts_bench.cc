// Products of experts in every stored format at the released model's widths: ten experts a call, as
// a decode step has them, out of a working set that no cache holds. Arguments: form, rows, K, N,
// threads.
//
// "of_read_rate": packed bytes over what the threads could read from a working set of the same size
// by a plain loop.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <utility>

#include "bench_operands.h"
#include "machine_peak.h"
#include "numeric/half.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "support/op_scratch.h"
#include "unit/ops/quantised_weight.h"

namespace kv8 {
namespace {

constexpr std::int64_t kWorkingSet = 500'000'000;
constexpr std::int64_t kExpertsPerCall = 8;  // one part of a Linear call each

const std::array<QuantisedForm, 6> kForms = {{
    {WeightFormat::kBf16},
    {WeightFormat::kFp8, ScaleFormat::kFp32, 128, 128},
    {WeightFormat::kNvfp4, ScaleFormat::kE4m3, 16, 1, false, 0.01f},
    {WeightFormat::kInt4, ScaleFormat::kBf16, 32},
    {WeightFormat::kInt4, ScaleFormat::kBf16, 32, 1, true},
    {WeightFormat::kInt4, ScaleFormat::kFp16, 128},
}};

/// Many copies of one weight, each with its scales behind its codes.
class Copies {
 public:
  Copies(const Weight& weight, std::int64_t count)
      : bytes_(static_cast<std::size_t>(weight.bytes() * count)) {
    std::byte* to = bytes_.data();
    const auto put = [&to](const std::byte* from, std::int64_t size) {
      if (from == nullptr) return from;
      std::memcpy(to, from, static_cast<std::size_t>(size));
      return static_cast<const std::byte*>(std::exchange(to, to + size));
    };
    for (std::int64_t i = 0; i < count; ++i) {
      Weight& copy = weights.emplace_back(weight);
      copy.codes = put(weight.codes, weight.rows * weight.code_row_bytes());
      copy.scales = put(weight.scales, weight.scale_rows() * weight.scale_row_bytes());
      copy.zero_points = put(weight.zero_points, weight.scale_rows() * weight.scale_cols());
    }
  }
  std::vector<Weight> weights;

 private:
  std::vector<std::byte> bytes_;
};

/// One weight [n,k] of a form, copied until it fills the working set.
Copies MakeExperts(const QuantisedForm& form, std::int64_t n, std::int64_t k) {
  const QuantisedWeight quantised(form, n, k, 1);
  std::vector<std::uint16_t> plain;
  for (const float w : RandomOperand(n * k, 1)) plain.push_back(EncodeBf16(w * 0.02f));
  const Weight weight = IsPlain(form.format)
                            ? Weight{form.format, n, k, reinterpret_cast<std::byte*>(plain.data())}
                            : quantised.view();
  return Copies(weight, kWorkingSet / weight.bytes() / kExpertsPerCall * kExpertsPerCall);
}

void BM_Experts(benchmark::State& state) {
  const QuantisedForm& form = kForms[static_cast<std::size_t>(state.range(0))];
  const std::int64_t rows = state.range(1), k = state.range(2), n = state.range(3);
  const auto threads = static_cast<int>(state.range(4));
  const Copies copies = MakeExperts(form, n, k);
  const std::int64_t experts = std::ssize(copies.weights);
  const std::vector<float> x = RandomOperand(rows * k, 2);
  std::vector<std::vector<float>> out(kExpertsPerCall,
                                      std::vector<float>(static_cast<std::size_t>(rows * n)));
  ThreadPool pool(threads);
  const auto run = [&](LinearFn& linear, std::int64_t first) {
    std::array<LinearPart, kExpertsPerCall> parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i] = {copies.weights[static_cast<std::size_t>(first) + i],
                  Matrix(out[i].data(), rows, n)};
    }
    linear(test::ContextOf(pool), ConstMatrix(x.data(), rows, k), parts);
  };
  run(reference::Linear, 0);
  const std::vector<float> expected = out.back();
  run(simd::Linear, 0);
  RequireClose(out.back(), expected);
  std::int64_t first = 0;
  for (auto _ : state) {
    run(simd::Linear, first);
    first = (first + kExpertsPerCall) % experts;
  }
  state.SetLabel(form.name());
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  const auto bytes = static_cast<double>(kExpertsPerCall * copies.weights[0].bytes());
  state.counters["bytes"] = benchmark::Counter(bytes, rate);
  state.counters["macs"] =
      benchmark::Counter(static_cast<double>(kExpertsPerCall * rows * n * k), rate);
  state.counters["of_read_rate"] =
      benchmark::Counter(bytes / (threads * ReadBytesPerSecond(kWorkingSet)), rate);
}

void ExpertShapes(benchmark::internal::Benchmark* b) {
  for (const int threads : {1, 2}) {
    for (std::int64_t form = 0; form < std::ssize(kForms); ++form) {
      for (const int rows : {1, 4, 64}) {
        b->Args({form, rows, 2560, 640, threads});
        b->Args({form, rows, 640, 2560, threads});
      }
    }
  }
}
BENCHMARK(BM_Experts)->Apply(ExpertShapes)->UseRealTime();

}  // namespace
}  // namespace kv8
