// One document at a time through the target and the draft head, prefill only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kvcache/kv_cache.h"
#include "kvcache/sequence_state.h"
#include "model/cpu/cpu_steps.h"
#include "model/model.h"

namespace kv8 {

/// Owns caches and buffers for one sequence; their size depends on the longest document only.
class DocumentRunner {
 public:
  /// Called after every chunk with the document's tokens done so far; false stops the document.
  using OnChunk = std::function<bool(std::int64_t tokens_done)>;

  /// `cache` must have room for the longest document and a pool for the draft layer when the model
  /// has one. `model` and `pool` must outlive the runner.
  DocumentRunner(const Model& model, const OpTable& ops, ThreadPool& pool, KvCache cache);

  /// Runs `ids` from an empty sequence: every row of the target, and of the draft head all rows but
  /// the last, which has no next token to pair with. `observer` may be null.
  /// Returns false when `on_chunk` stopped it.
  bool Run(std::span<const TokenId> ids, ForwardObserver* observer, const OnChunk& on_chunk);

  const KvCache& cache() const { return cache_; }

 private:
  void RunTarget(std::span<const TokenId> ids, std::int64_t first, Matrix streams);
  void RunDraft(std::span<const TokenId> next_ids, std::int64_t first, ConstMatrix target);
  SequenceRows RowsOf(std::int64_t first, std::int64_t count);
  CpuContext Context();

  const Model& model_;
  const OpTable& ops_;
  ThreadPool& pool_;
  KvCache cache_;
  Workspace workspace_;
  StateLayout layout_;
  SequenceState state_;
  std::vector<BlockId> blocks_;  // the whole pool, in order
  std::vector<float> streams_;
  std::vector<float> draft_streams_;
  ForwardObserver* observer_ = nullptr;  // of the current document
};

}  // namespace kv8
