#include "plan/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/aligned.h"
#include "base/thread_pool.h"
#include "ops/op_table.h"

namespace kv8 {
namespace {

constexpr std::int64_t kLeastBytes = 4 << 20, kMostBytes = 256 << 20;
constexpr std::int64_t kManyRows = 256;
constexpr std::int64_t kFewOutputs = 64;
constexpr std::chrono::milliseconds kTrialTime{120};

/// Shortest seconds of `work` among those that fit into the time of a trial, after one in vain.
template <class Work>
double BestSeconds(Work&& work) {
  using Clock = std::chrono::steady_clock;
  work();
  double best = 1e9;
  for (const auto end = Clock::now() + kTrialTime; Clock::now() < end;) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

class Products {
 public:
  Products(const OpTable& ops, const MeasureOptions& options)
      : ops_(ops),
        pool_(options.threads),
        cols_(options.cols),
        outputs_(std::clamp(options.bytes, kLeastBytes, kMostBytes) / (2 * options.cols)),
        scratch_(ops.scratch({.threads = options.threads,
                              .rows = kManyRows,
                              .linear_rows = kManyRows,
                              .linear_cols = cols_}),
                 options.threads),
        weights_(static_cast<std::size_t>(outputs_ * cols_ * 2)),
        copy_(weights_.size()),
        x_(static_cast<std::size_t>(kManyRows * cols_), 1.0F),
        out_(static_cast<std::size_t>(std::max(outputs_, kManyRows * 4 * cols_))) {}

  /// Of one product with the first `outputs` rows of the weights.
  double Seconds(std::int64_t rows, std::int64_t outputs) {
    return BestSeconds([&] { Multiply(rows, 0, outputs); });
  }
  /// Of products with all weights, matrices of `outputs` rows one after another.
  double SecondsOfAll(std::int64_t outputs) {
    return BestSeconds([&] {
      for (std::int64_t begin = 0; begin + outputs <= outputs_; begin += outputs) {
        Multiply(1, begin, outputs);
      }
    });
  }
  double CopySeconds() {
    return BestSeconds([this] {
      pool_.ParallelFor(std::ssize(copy_), 1 << 16, [this](std::int64_t begin, std::int64_t end) {
        std::memcpy(copy_.data() + begin, weights_.data() + begin,
                    static_cast<std::size_t>(end - begin));
      });
    });
  }
  std::int64_t outputs() const { return outputs_; }
  double bytes() const { return static_cast<double>(weights_.size()); }

 private:
  void Multiply(std::int64_t rows, std::int64_t begin, std::int64_t outputs) {
    const Weight weight{
        .rows = outputs, .cols = cols_, .codes = weights_.data() + begin * cols_ * 2};
    const LinearPart part{weight, Matrix(out_.data(), rows, outputs)};
    ops_.linear({pool_, scratch_.scratch()}, ConstMatrix(x_.data(), rows, cols_),
                std::span(&part, 1));
  }

  const OpTable& ops_;
  ThreadPool pool_;
  std::int64_t cols_, outputs_;
  ScratchMemory scratch_;
  AlignedVector<std::byte> weights_, copy_;
  AlignedVector<float> x_, out_;
};

}  // namespace

Result<Rates> MeasureCpu(const MeasureOptions& options) {
  KV8_ASSIGN_OR_RETURN(const OpTable* const ops, FindOps(""));
  Products products(*ops, options);
  const std::int64_t wide = std::min(products.outputs(), 4 * options.cols);
  Rates rates;
  rates.read = products.bytes() / products.SecondsOfAll(wide);
  rates.copy = products.bytes() / products.CopySeconds();
  const std::int64_t narrow = std::min(wide, options.outputs);
  rates.matrix =
      static_cast<double>(kManyRows * narrow * options.cols) / products.Seconds(kManyRows, narrow);
  rates.dispatch = products.Seconds(1, std::min(products.outputs(), kFewOutputs));
  return rates;
}

}  // namespace kv8
