// Executes a plan: turns sequences into slots, rows and pages, and keeps what leaves the pools.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/scheduler.h"
#include "model/executor.h"
#include "model/loaded_model.h"

namespace kv8 {

/// Rows of one sequence in a pass of the draft head. Row t pairs the streams of position t with the
/// token after it.
struct DraftItem {
  Sequence* sequence = nullptr;
  std::int64_t first_position = 0;
  std::int64_t rows = 0;
  /// Whose streams the first row has: a row of the last plan, or, with StreamSource::kDraft, the
  /// last row of that item of the last draft pass.
  std::int64_t source = 0;
};

/// Most rows of logits that a step of `slots` sequences with `drafts` drafts needs at once.
std::int64_t LogitRows(int slots, int drafts);

/// Carries out plans and decides nothing. V is the vocabulary.
class Runner {
 public:
  /// What executor->failure() says holds for every call.
  /// `preempted_bytes` is the most that saved sequences may take.
  Runner(const LoadedModel& model, const KvCachePlan& cache, std::int64_t preempted_bytes,
         std::unique_ptr<Executor> executor);

  /// Saves, restores, runs all rows, feeds prompt-row sinks, and computes the logits of every row
  /// of generated tokens and of prompts' last rows.
  void Run(const StepPlan& plan);

  /// Logits of item `i` of the last plan, [rows,V]: all its rows in decode, the last in prefill.
  /// Empty for an item that yields no token, or has Tokens. May be changed in place.
  Matrix Logits(std::size_t i) const { return item_logits_[i]; }
  /// Instead of the logits, when the executor chooses and the sequence does not NeedLogits: what it
  /// chose at each of those rows. Else empty.
  std::span<const TokenId> Tokens(std::size_t i) const { return item_tokens_[i]; }

  /// Back to the recurrent state after the first `kept` of an item's rows.
  void Rollback(const PlanItem& item, std::int64_t kept);

  /// Runs the draft head over the items' rows; the sequences' pages must cover them.
  void Draft(std::span<const DraftItem> items, StreamSource source);
  /// Logits [n,V] of the last row of each of the last draft pass's first n items.
  Matrix DraftLogits(std::int64_t n);
  /// The most likely tokens of those rows, or nothing: see Executor::BestDraftTokens.
  std::span<const TokenId> BestDraftTokens(std::int64_t n);

  /// Drops snapshots, then keeps those of `keeps`, which are about the last plan, up to the first
  /// for which there is no memory; returns those from there on. To be called when the drafts of the
  /// step are done.
  std::span<const PlanKeep> KeepSnapshots(const StepPlan& plan, std::span<const PlanKeep> keeps,
                                          std::span<const SnapshotId> dropped);

  /// Fills units from the pools and snapshots. Returns those whose snapshot was never taken.
  std::vector<std::shared_ptr<KvUnit>> WriteBack(std::span<const TierWrite> writes);

  /// Drops what is kept for a sequence outside of the pools.
  void Forget(const Sequence& sequence);
  /// Bytes of what is kept for preempted sequences now.
  std::int64_t preempted_bytes() const { return saved_bytes_; }

  const KvCachePlan& cache() const { return cache_; }
  Executor& executor() const { return *executor_; }

 private:
  using Bytes = std::vector<std::byte>;
  struct Saved {
    Bytes state;
    Bytes pages;
    std::int64_t bytes() const { return std::ssize(state) + std::ssize(pages); }
  };

  /// The recurrent state after some prompt, and the residual streams of its last row.
  struct Snapshot {
    Bytes state;
    std::vector<float> last_streams;  // empty without a draft head
  };

  void Save(const PlanSave& save);
  void Restore(const Sequence& sequence);
  void TakeOver(std::span<const PlanHit> hits);
  void LoadStart(const PlanHit& hit, std::int64_t row);
  Snapshot TakeSnapshot(const StepPlan& plan, const PlanKeep& keep);
  void AddRows(const PlanItem& item);
  void FeedPromptRows(const StepPlan& plan);
  void ComputeLogits(const StepPlan& plan);
  static std::pair<std::int64_t, std::int64_t> HeadRows(const PlanItem& item, std::int64_t begin);
  bool Chooses(const PlanItem& item) const;
  void SortHeadRows(const StepPlan& plan);

  const KvCachePlan cache_;
  const std::int64_t state_bytes_;   // of one sequence
  const std::int64_t stream_width_;  // of one row
  const bool with_draft_;
  const std::unique_ptr<Executor> executor_;
  const std::int64_t most_saved_bytes_;
  std::int64_t saved_bytes_ = 0;
  std::unordered_map<const Sequence*, Saved> saved_;
  std::unordered_map<SnapshotId, Snapshot> snapshots_;

  // Of the current step.
  std::vector<TokenId> ids_;
  std::vector<SlotRows> items_;
  std::vector<std::int64_t> row_begins_;   // of the last plan's items
  std::vector<std::int64_t> logit_rows_;   // whose logits are read
  std::vector<std::int64_t> choice_rows_;  // whose token the executor chooses, by these:
  std::vector<ChoiceRule> rules_;
  std::vector<Matrix> item_logits_;
  std::vector<std::span<const TokenId>> item_tokens_;
  std::vector<std::int64_t> sources_;     // of the last draft pass's rows
  std::vector<std::int64_t> draft_last_;  // last row of each item of the last draft pass
};

}  // namespace kv8
