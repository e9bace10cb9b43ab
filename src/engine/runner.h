// Executes a plan: owns every tensor of the engine besides the weights.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "engine/scheduler.h"
#include "kvcache/kv_cache.h"
#include "kvcache/sequence_state.h"
#include "model/loaded_model.h"

namespace kv8 {

struct RunnerLimits {
  KvCachePlan cache;
  int slots = 1;                // recurrent states
  int drafts = 0;               // most per sequence and step
  std::int64_t max_rows = 512;  // of one step
  int threads = 1;
};

/// Rows of one sequence in a pass of the draft head. Row t pairs the streams of position t with the
/// token after it.
struct DraftItem {
  Sequence* sequence = nullptr;
  std::int64_t first_position = 0;
  std::int64_t rows = 0;
  std::int64_t source_row = 0;  // of the first row's streams, see DraftSource
};

/// Where a draft pass takes streams from.
enum class DraftSource {
  kTarget,  // rows of the last plan
  kDraft,   // the last draft pass: row i is the last row of its item i
};

/// Does what it is told; decides nothing. S*H is the width of a row's residual streams, V the
/// vocabulary.
class Runner {
 public:
  /// `model` must outlive the runner. Errors: kResourceExhausted for the cache.
  static Result<std::unique_ptr<Runner>> Create(const LoadedModel& model,
                                                const RunnerLimits& limits);

  /// Saves, restores, runs all rows, feeds prompt-row sinks, and computes the logits of every row
  /// of generated tokens and of prompts' last rows.
  void Run(const StepPlan& plan);

  /// Logits of item `i` of the last plan, [rows,V]: all its rows in decode, the last in prefill.
  /// Empty for an item that yields no token. May be changed in place.
  Matrix Logits(std::size_t i);

  /// Back to the recurrent state after the first `kept` of an item's rows.
  void Rollback(const PlanItem& item, std::int64_t kept);

  /// Runs the draft head over the items' rows; the sequences' blocks must cover them.
  void Draft(std::span<const DraftItem> items, DraftSource source);
  /// Logits [n,V] of the last row of each of the last draft pass's first n items.
  Matrix DraftLogits(std::int64_t n);

  /// Drops snapshots, then keeps those of `keeps`, which are about the last plan. To be called when
  /// the drafts of the step are done.
  void KeepSnapshots(const StepPlan& plan, std::span<const PlanKeep> keeps,
                     std::span<const SnapshotId> dropped);

  /// Drops what is kept for a sequence outside of the pools.
  void Forget(const Sequence& sequence) { saved_.erase(&sequence); }

  const KvCache& cache() const { return cache_; }
  /// Buffers of a step, and what they will be.
  std::int64_t activation_bytes() const;
  static std::int64_t PlannedActivationBytes(const LoadedModel& model, const RunnerLimits& limits);

 private:
  struct Saved {
    SequenceState state;
    std::vector<std::byte> blocks;
  };

  /// The recurrent state after some prompt, and the residual streams of its last row.
  struct Snapshot {
    SequenceState state;
    std::vector<float> last_streams;  // [S*H]; empty without a draft head
  };

  Runner(const LoadedModel& model, const RunnerLimits& limits, KvCache cache);

  void Save(const PlanSave& save);
  void Restore(const Sequence& sequence);
  void TakeOver(std::span<const PlanHit> hits);
  Snapshot TakeSnapshot(const StepPlan& plan, const PlanKeep& keep);
  void AddRows(const PlanItem& item);
  void RunDraft(std::span<const DraftItem> items);
  void FeedPromptRows(const StepPlan& plan);
  void ComputeLogits(const StepPlan& plan);
  Matrix Streams(std::int64_t rows);
  ForwardContext Context();
  std::span<SequenceState> Trail(const PlanItem& item);

  const Model& model_;
  const StateLayout layout_;
  const std::int64_t width_;  // S*H
  const std::int64_t vocab_;
  ThreadPool pool_;
  KvCache cache_;
  Workspace workspace_;
  const int drafts_;
  std::vector<SequenceState> states_;  // by slot
  std::vector<SequenceState> trails_;  // by slot, `drafts_` each
  std::unordered_map<const Sequence*, Saved> saved_;
  std::unordered_map<SnapshotId, Snapshot> snapshots_;

  // Of the step in hand.
  std::vector<TokenId> ids_;
  std::vector<SequenceRows> rows_;
  std::vector<float> streams_;        // [max_rows,S*H]
  std::vector<float> token_streams_;  // [logit rows,S*H]
  std::vector<float> logits_;         // [logit rows,V]
  std::vector<Matrix> item_logits_;
  std::vector<float> draft_input_;        // [max_rows,S*H]
  std::vector<float> draft_streams_;      // [max_rows,S*H]
  std::vector<std::int64_t> draft_last_;  // last row of each item of the last draft pass
};

}  // namespace kv8
