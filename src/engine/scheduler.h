// Decides what the next step computes. Knows tokens, pages and slots by number; holds no tensor.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "kvcache/page_pool.h"
#include "kvcache/prefix_tree.h"
#include "kvtier/host_tier.h"
#include "model/batch.h"

namespace kv8 {

/// Rows of one sequence in a step.
struct PlanItem {
  Sequence* sequence = nullptr;
  std::int64_t rows = 0;
  Phase phase = Phase::kPrefill;
  std::int64_t first_position = 0;  // of the rows; computed tokens before the step

  /// Whether the step computes the prompt's last token or a generated one: then logits are needed.
  bool yields_token() const {
    return phase == Phase::kDecode || first_position + rows == sequence->prompt_tokens;
  }
};

/// A sequence that gives way: its pages and slot as they were, to be copied out.
struct PlanSave {
  Sequence* sequence = nullptr;
  std::vector<PageId> pages;
  int slot = -1;
};

/// A page to be copied before anything is written.
struct PlanCopy {
  PageId from{};
  PageId to{};
};

/// Pages of a unit that a sequence gets copies of.
struct PlanRead {
  std::shared_ptr<const KvUnit> unit;
  std::int64_t first = 0;  // counted in the unit
  std::vector<PageId> to;
};

/// A sequence that starts after its `computed` tokens, from a snapshot or from the state of a unit.
struct PlanHit {
  Sequence* sequence = nullptr;
  SnapshotId snapshot{};
  std::shared_ptr<const KvUnit> unit = {};  // null: the snapshot
  std::vector<PlanRead> reads = {};
};

/// A state to be kept for other prompts: that after the first `tokens` tokens of an item's
/// sequence, which end in the item.
struct PlanKeep {
  std::size_t item = 0;
  std::int64_t tokens = 0;
  SnapshotId snapshot{};
};

/// What one step does, in this order: save, copy, restore, take over, forget, compute.
struct StepPlan {
  std::vector<PlanSave> saves;
  std::vector<PlanCopy> copies;
  std::vector<Sequence*> restores;  // have their new pages and slot
  std::vector<PlanHit> hits;
  std::vector<SnapshotId> dropped;  // snapshots that nobody will ask for again
  std::vector<PlanItem> items;      // generated tokens first, then prompts
  std::int64_t rows = 0;

  void Clear();
};

/// Pages between regular snapshots of a long prompt.
inline constexpr std::int64_t kSnapshotDistance = 16;

struct SchedulerLimits {
  int max_num_seqs = 1;
  std::int64_t prefill_chunk = 512;            // a multiple of kPageTokens
  std::int64_t prefill_beside_decode = 65536;  // likewise, of all prompts beside generated tokens
  std::int64_t max_step_rows = 1024;           // at least a row per sequence and one page of prompt
  bool with_draft = false;         // pages depend on the token after them, see PrefixTree
  std::int64_t max_snapshots = 0;  // 0: every sequence computes its whole prompt
  bool choices_only = false;       // no prompt is shared but by the choices of one request
  bool cache_generated = false;    // shares what decode wrote, see EngineOptions
};

/// First come, first served: an earlier request is admitted first and never gives way to a later
/// one. Those whose mask is not ready are passed over until it is. Generated tokens run in every
/// step; prompts share what the row budget leaves and take turns. When pages run out the latest
/// sequence is saved and continues once there is room. It keeps its place among the max_num_seqs
/// that have started, so that what is saved has a bound.
///
/// With a tier in host memory, what leaves the pools is offered to that first: TakeWrites, which is
/// to be carried out before the next plan and before what CachePages dropped is dropped.
class Scheduler {
 public:
  /// Most sequences that are preempted at once: one always runs.
  static std::int64_t MaxPreempted(const SchedulerLimits& limits) {
    return std::int64_t{limits.max_num_seqs} - 1;
  }

  /// `pages` must hold one sequence of the greatest length, so that the first in line always runs.
  /// `tier` may be null and must outlive the scheduler.
  Scheduler(const SchedulerLimits& limits, std::int64_t pages, HostTier* tier = nullptr);

  /// Puts a waiting sequence in line.
  void Add(Sequence& sequence);
  /// Takes a sequence out at any stage and gives back what it holds.
  void Remove(Sequence& sequence);
  /// Fills `plan`. Pages and slots are assigned; tokens and computed counts change only when the
  /// step is committed.
  void Schedule(StepPlan& plan);

  /// After the step: shares what it computed, and tells which states to keep. Fills `dropped` with
  /// those that must give way first. Where memory runs out it shares less, and nothing fails.
  void CachePages(const StepPlan& plan, std::vector<PlanKeep>& keeps,
                  std::vector<SnapshotId>& dropped);
  /// States that could not be kept.
  void GiveUp(std::span<const PlanKeep> keeps);
  /// Offers all states to the tier, as if they left the pools now.
  void GiveUpAll() { tree_.TellAll(); }
  /// What the last Schedule or CachePages wants to be kept in the tier.
  std::vector<TierWrite> TakeWrites() { return std::exchange(writes_, {}); }

  /// Counters of the prefix cache.
  struct PrefixCounts {
    std::uint64_t lookups = 0;
    std::uint64_t tokens = 0;  // of the prompts looked up
    std::uint64_t hits = 0;
    std::uint64_t pages = 0;
  };
  const PrefixCounts& prefix_counts() const { return prefix_counts_; }
  const PrefixTree& tree() const { return tree_; }

  bool idle() const { return queue_.empty() && running_.empty(); }
  const PagePool& pages() const { return pages_; }
  std::size_t waiting() const { return queue_.size(); }
  std::span<Sequence* const> running() const { return running_; }
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  void CacheItem(const StepPlan& plan, std::size_t i, std::vector<PlanKeep>& keeps,
                 std::vector<SnapshotId>& dropped);
  void ScheduleDecode(StepPlan& plan);
  void ScheduleAdmission(StepPlan& plan);
  void SchedulePrefill(StepPlan& plan);
  bool Grow(Sequence& sequence, StepPlan& plan);
  bool TakeOver(Sequence& sequence, StepPlan& plan);
  bool TakeOverFromTier(Sequence& sequence, const PrefixHit& near, const TierHit& far,
                        StepPlan& plan);
  void CountLookup(const Sequence& sequence, bool looked, std::int64_t found);
  /// Whether one more may start: preempted ones come back before.
  bool MayStart() const { return std::ssize(running_) + preempted_ < limits_.max_num_seqs; }
  bool MustWaitForSibling(const Sequence& sequence) const;
  bool MayTakeOver(const Sequence& sequence) const;
  bool MayHandOn(const Sequence& sequence) const;
  void Preempt(Sequence& sequence, StepPlan& plan);
  bool CachePrompt(const Sequence& sequence);
  bool CacheAnswer(Sequence& sequence, std::int64_t before, std::vector<SnapshotId>& dropped);

  SchedulerLimits limits_;
  PagePool pages_;
  PrefixTree tree_;
  HostTier* const tier_;
  std::vector<TierWrite> writes_;
  PrefixCounts prefix_counts_;
  std::int64_t next_snapshot_ = 0;
  std::vector<int> free_slots_;
  std::deque<Sequence*> queue_;     // waiting and preempted, by arrival
  std::vector<Sequence*> running_;  // by arrival
  std::vector<Sequence*> turns_;    // working memory
  std::int64_t preempted_ = 0;      // of the queue
  std::uint64_t step_ = 0;
  std::uint64_t preemptions_ = 0;
};

}  // namespace kv8
