#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>

#include "base/checked.h"

namespace kv8 {
namespace {

bool Earlier(const Sequence* a, const Sequence* b) {
  return a->arrival < b->arrival;
}

template <class Container>
void InsertByArrival(Container& sequences, Sequence& sequence) {
  sequences.insert(std::upper_bound(sequences.begin(), sequences.end(), &sequence, Earlier),
                   &sequence);
}

}  // namespace

void StepPlan::Clear() {
  saves.clear();
  restores.clear();
  items.clear();
  rows = 0;
}

Scheduler::Scheduler(const SchedulerLimits& limits, std::int64_t blocks)
    : limits_(limits), blocks_(blocks) {
  for (int slot = limits.max_num_seqs; slot-- > 0;) free_slots_.push_back(slot);
  running_.reserve(static_cast<std::size_t>(limits.max_num_seqs));
  turns_.reserve(static_cast<std::size_t>(limits.max_num_seqs));
}

void Scheduler::Add(Sequence& sequence) {
  assert(sequence.stage == Stage::kWaiting);
  InsertByArrival(queue_, sequence);
}

void Scheduler::Remove(Sequence& sequence) {
  if (sequence.running()) {
    blocks_.Free(sequence.blocks);
    sequence.blocks.clear();
    free_slots_.push_back(sequence.slot);
    std::erase(running_, &sequence);
  } else {
    std::erase(queue_, &sequence);
  }
  sequence.slot = -1;
  sequence.stage = Stage::kFinished;
}

void Scheduler::Schedule(StepPlan& plan) {
  plan.Clear();
  ++step_;
  ScheduleDecode(plan);
  if (plan.saves.empty()) ScheduleAdmission(plan);  // else they would only take turns giving way
  SchedulePrefill(plan);
}

void Scheduler::ScheduleDecode(StepPlan& plan) {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.stage != Stage::kDecode) continue;
    const std::int64_t rows = 1 + sequence.draft_count();
    bool fits = Grow(sequence);
    while (!fits && running_.back() != &sequence) {
      Preempt(*running_.back(), plan);
      fits = Grow(sequence);
    }
    if (!fits) {
      Preempt(sequence, plan);
      break;
    }
    plan.items.push_back({&sequence, rows, Phase::kDecode, sequence.computed});
    plan.rows += rows;
  }
}

void Scheduler::ScheduleAdmission(StepPlan& plan) {
  while (!queue_.empty() && !free_slots_.empty()) {
    Sequence& sequence = *queue_.front();
    if (!Grow(sequence)) return;
    queue_.pop_front();
    sequence.slot = free_slots_.back();
    free_slots_.pop_back();
    if (sequence.stage == Stage::kPreempted) plan.restores.push_back(&sequence);
    sequence.stage = sequence.computed < sequence.prompt_tokens ? Stage::kPrefill : Stage::kDecode;
    InsertByArrival(running_, sequence);
  }
}

void Scheduler::SchedulePrefill(StepPlan& plan) {
  turns_.clear();
  for (Sequence* sequence : running_) {
    if (sequence->stage == Stage::kPrefill) turns_.push_back(sequence);
  }
  std::stable_sort(turns_.begin(), turns_.end(), [](const Sequence* a, const Sequence* b) {
    return a->last_prefill_step < b->last_prefill_step;
  });
  for (Sequence* sequence : turns_) {
    const std::int64_t left = sequence->prompt_tokens - sequence->computed;
    const std::int64_t budget = limits_.max_step_rows - plan.rows;
    std::int64_t rows = std::min({left, limits_.prefill_chunk, budget});
    if (rows < left) rows -= rows % kBlockTokens;  // chunks end at block boundaries
    if (rows <= 0) return;
    sequence->last_prefill_step = step_;
    plan.items.push_back({sequence, rows, Phase::kPrefill, sequence->computed});
    plan.rows += rows;
  }
}

/// Extends the block table to the step's reach; false, and nothing is taken, when it cannot.
bool Scheduler::Grow(Sequence& sequence) {
  const std::int64_t missing =
      CeilDiv(sequence.reach(), kBlockTokens) - static_cast<std::int64_t>(sequence.blocks.size());
  if (missing <= 0) return true;
  if (missing > blocks_.free_count()) return false;
  const std::vector<BlockId> taken = blocks_.Allocate(missing).value();
  sequence.blocks.insert(sequence.blocks.end(), taken.begin(), taken.end());
  return true;
}

void Scheduler::Preempt(Sequence& sequence, StepPlan& plan) {
  ++preemptions_;
  blocks_.Free(sequence.blocks);
  free_slots_.push_back(sequence.slot);
  plan.saves.push_back({&sequence, std::move(sequence.blocks), sequence.slot});
  sequence.blocks.clear();
  sequence.slot = -1;
  sequence.stage = Stage::kPreempted;
  std::erase(running_, &sequence);
  InsertByArrival(queue_, sequence);
}

}  // namespace kv8
