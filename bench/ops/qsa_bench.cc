// Choice of selection blocks and sparse attention at the bundled model's dimensions.
//
// Arguments: rows, context, threads. "macs_per_thread": multiply-adds per second and thread; the
// machine's bound is in docs/kernels/sparse_attention.md.
#include <benchmark/benchmark.h>

#include <numeric>

#include "bench_operands.h"
#include "ops/cpu/kv_element.h"
#include "ops/cpu/reference.h"
#include "ops/cpu/simd.h"
#include "support/op_scratch.h"

namespace kv8 {
namespace {

struct Pages {
  Pages(const QsaConfig& config, KvDType dtype, std::int64_t tokens)
      : kv{dtype, config.kv_heads, config.head_dim},
        index{dtype == KvDType::kFp32, kPageTokens / config.selection_block_tokens,
              config.index_dim} {
    const std::int64_t count = tokens / kPageTokens + 1;
    for (std::int64_t i = 0; i < count; ++i) table.push_back(static_cast<PageId>(i));
    kv_pool.resize(static_cast<std::size_t>(count * kv.page_bytes()));
    index_pool.resize(static_cast<std::size_t>(count * index.page_bytes()));
    Fill(kv_pool, dtype, 1);
    Fill(index_pool, index.fp32 ? KvDType::kFp32 : KvDType::kFp16, 2);
  }

  static void Fill(std::vector<std::byte>& pool, KvDType dtype, std::uint32_t seed) {
    const auto count = static_cast<std::int64_t>(pool.size()) / SizeOf(dtype);
    const std::vector<float> values = RandomOperand(count, seed);
    for (std::int64_t i = 0; i < count; ++i) {
      StoreKvElement(dtype, values[static_cast<std::size_t>(i)], 0.03f, pool.data(), i);
    }
  }

  QsaSlice Slice(std::int64_t rows, std::int64_t first) {
    return {0,
            rows,
            first,
            {kv_pool.data(), kv, table, 0.03f, 0.03f},
            {index_pool.data(), index, table},
            {}};
  }

  KvLayout kv;
  IndexLayout index;
  std::vector<PageId> table;
  std::vector<std::byte> kv_pool, index_pool;
};

void BM_SelectBlocks(benchmark::State& state) {
  const QsaConfig config = BundledQsa();
  const std::int64_t rows = state.range(0), tokens = state.range(1);
  Pages pages(config, KvDType::kFp16, tokens);
  const QsaSlice slice = pages.Slice(rows, tokens - rows);
  const std::int64_t width = std::int64_t{config.index_heads} * config.index_dim;
  const std::vector<float> iq = RandomOperand(rows * width, 3);
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(rows * config.budget_selection_blocks));
  std::vector<std::int32_t> counts(static_cast<std::size_t>(rows));
  ThreadPool pool(static_cast<int>(state.range(2)));
  for (auto _ : state) {
    simd::SelectBlocks(test::ContextOf(pool), config, ConstMatrix(iq.data(), rows, width),
                       {&slice, 1}, {blocks, counts});
  }
  const double macs = double(rows) * double(tokens - rows / 2) / 4 * double(width);
  state.counters["us_per_row"] =
      benchmark::Counter(double(rows) * 1e-6, benchmark::Counter::kIsIterationInvariantRate |
                                                  benchmark::Counter::kInvert);
  state.counters["macs_per_thread"] = benchmark::Counter(
      macs / double(state.range(2)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_SelectBlocks)
    ->ArgsProduct({{1}, {1024, 12000}, {1, 2}})
    ->ArgsProduct({{256}, {12000}, {1, 2}})
    ->UseRealTime();

void RunAttention(benchmark::State& state, KvDType dtype) {
  const QsaConfig config = BundledQsa();
  const std::int64_t rows = state.range(0), tokens = state.range(1);
  Pages pages(config, dtype, tokens);
  const QsaSlice slice = pages.Slice(rows, tokens - rows);
  const std::int64_t width = std::int64_t{config.query_heads} * config.head_dim;
  const std::vector<float> q = RandomOperand(rows * width, 3);
  const std::vector<float> gate = RandomOperand(rows * width, 4);
  std::vector<std::int32_t> blocks, counts;
  for (std::int64_t t = 0; t < rows; ++t) {  // evenly spread
    const std::int64_t complete = (tokens - rows + t + 1) / config.selection_block_tokens;
    for (std::int64_t i = 0; i < config.budget_selection_blocks; ++i) {
      blocks.push_back(static_cast<std::int32_t>(i * complete / config.budget_selection_blocks));
    }
    counts.push_back(config.budget_selection_blocks);
  }
  std::vector<float> out(static_cast<std::size_t>(rows * width)), expected = out;
  ThreadPool pool(static_cast<int>(state.range(2)));
  const auto run = [&](SparseAttentionFn& attention, std::vector<float>& to) {
    attention(test::ContextOf(pool), config, ConstMatrix(q.data(), rows, width),
              ConstMatrix(gate.data(), rows, width), config.head_dim, {&slice, 1}, {blocks, counts},
              Matrix(to.data(), rows, width));
  };
  run(reference::SparseAttention, expected);
  run(simd::SparseAttention, out);
  RequireClose(out, expected);
  for (auto _ : state) run(simd::SparseAttention, out);
  const double macs = double(rows) * (256 + 1.5) * 2 * double(width);
  state.counters["us_per_row"] =
      benchmark::Counter(double(rows) * 1e-6, benchmark::Counter::kIsIterationInvariantRate |
                                                  benchmark::Counter::kInvert);
  state.counters["macs_per_thread"] = benchmark::Counter(
      macs / double(state.range(2)), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK_CAPTURE(RunAttention, fp16, KvDType::kFp16)
    ->ArgsProduct({{1, 256}, {12000}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(RunAttention, e4m3, KvDType::kE4M3)
    ->ArgsProduct({{1, 256}, {12000}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(RunAttention, fp32, KvDType::kFp32)
    ->ArgsProduct({{1}, {12000}, {1}})
    ->UseRealTime();

}  // namespace
}  // namespace kv8
