// Decides what the next step computes. Knows tokens, blocks and slots by number; holds no tensor.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/sequence.h"
#include "kvcache/block_pool.h"
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

/// A sequence that gives way: its blocks and slot as they were, to be copied out.
struct PlanSave {
  Sequence* sequence = nullptr;
  std::vector<BlockId> blocks;
  int slot = -1;
};

/// What one step does, in this order: save, restore, compute.
struct StepPlan {
  std::vector<PlanSave> saves;
  std::vector<Sequence*> restores;  // have their new blocks and slot
  std::vector<PlanItem> items;      // generated tokens first, then prompts
  std::int64_t rows = 0;

  void Clear();
  bool empty() const { return saves.empty() && restores.empty() && items.empty(); }
};

struct SchedulerLimits {
  int max_num_seqs = 1;
  std::int64_t prefill_chunk = 512;   // a multiple of kBlockTokens
  std::int64_t max_step_rows = 1024;  // at least a row per sequence and one block of prompt
};

/// First come, first served: an earlier request is admitted first and never gives way to a later
/// one. Generated tokens run in every step; prompts share what the row budget leaves and take
/// turns. When blocks run out the latest sequence is saved and continues once there is room.
class Scheduler {
 public:
  /// `blocks` must hold one sequence of the greatest length, so that the first in line always runs.
  Scheduler(const SchedulerLimits& limits, std::int64_t blocks);

  /// Puts a waiting sequence in line.
  void Add(Sequence& sequence);
  /// Takes a sequence out at any stage and gives back what it holds.
  void Remove(Sequence& sequence);
  /// Fills `plan`. Blocks and slots are assigned; tokens and computed counts change only when the
  /// step is committed.
  void Schedule(StepPlan& plan);

  bool idle() const { return queue_.empty() && running_.empty(); }
  const BlockPool& blocks() const { return blocks_; }
  std::size_t waiting() const { return queue_.size(); }
  std::size_t running() const { return running_.size(); }
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  void ScheduleDecode(StepPlan& plan);
  void ScheduleAdmission(StepPlan& plan);
  void SchedulePrefill(StepPlan& plan);
  bool Grow(Sequence& sequence);
  void Preempt(Sequence& sequence, StepPlan& plan);

  SchedulerLimits limits_;
  BlockPool blocks_;
  std::vector<int> free_slots_;
  std::deque<Sequence*> queue_;     // waiting and preempted, by arrival
  std::vector<Sequence*> running_;  // by arrival
  std::vector<Sequence*> turns_;    // working memory
  std::uint64_t step_ = 0;
  std::uint64_t preemptions_ = 0;
};

}  // namespace kv8
