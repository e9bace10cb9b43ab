// Runs one sequence through the model, chunk by chunk or token by token, and keeps what tests
// compare.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "family/checkpoint.h"
#include "kvcache/kv_cache.h"
#include "kvcache/page_pool.h"
#include "model/cpu/cpu_steps.h"
#include "tensor/model_weights.h"

namespace kv8::test {

/// How a runner is built.
struct RunnerOptions {
  KvDType kv_dtype = KvDType::kFp32;
  std::vector<StoreScales> scales;  // one per K/V layer with kE4M3
  std::string backend = "simd";
  int threads = 1;               // tests run side by side, and idle threads spin
  std::int64_t capacity = 4096;  // tokens
  bool with_draft = false;
};

/// The bundled checkpoint, opened once per process.
const Checkpoint& BundledCheckpoint();

/// One sequence from its start. Not for production: throws on any error.
class SequenceRunner {
 public:
  explicit SequenceRunner(const RunnerOptions& options);

  const Model& model() const { return model_; }
  std::int64_t position() const { return position_; }
  KvCache& cache() { return cache_; }
  std::span<const PageId> pages() const { return pages_; }

  /// Feeds ids as prefill chunks of `chunk` tokens. Returns the streams of all rows, [T,S*H].
  std::vector<float> Prefill(std::span<const TokenId> ids, std::int64_t chunk,
                             ForwardObserver* observer = nullptr);
  /// Feeds ids one by one through decode kernels.
  std::vector<float> Decode(std::span<const TokenId> ids, ForwardObserver* observer = nullptr);
  /// Draft rows for the prompt: `next` holds the token after each row of `streams`.
  std::vector<float> DraftPrefill(std::span<const TokenId> next, std::span<const float> streams,
                                  std::int64_t chunk, ForwardObserver* observer = nullptr);
  /// One draft step at row `position`: token after it and the streams of that row.
  std::vector<float> DraftStep(TokenId next, std::span<const float> streams, std::int64_t position);

  /// [R,V] for R rows of streams.
  std::vector<float> Logits(std::span<const float> streams);
  std::vector<float> DraftLogits(std::span<const float> streams);

  std::int64_t stream_width() const;
  std::int64_t vocab() const { return model_.spec.vocab; }

 private:
  CpuContext Context(ForwardObserver* observer);
  std::vector<float> Head(std::span<const float> streams, const HyperConnectionWeights& mixer);
  void Run(std::span<const TokenId> ids, Phase phase, ForwardObserver* observer, float* streams);

  ThreadPool pool_;
  const OpTable& ops_;
  Model model_;
  ScratchMemory scratch_;
  KvCache cache_;
  Workspace workspace_;
  const StateLayout layout_;
  SequenceState state_;
  std::vector<PageId> pages_;
  std::int64_t position_ = 0;
};

/// Index of the largest; ties to the lower index.
int ArgMax(std::span<const float> values);

}  // namespace kv8::test
