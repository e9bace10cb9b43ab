#include "engine/scheduler.h"

#include <algorithm>
#include <cassert>
#include <new>

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

/// Where the sequence's next chunk must end at the latest.
std::int64_t NextStop(const Sequence& sequence) {
  for (const std::int64_t point : sequence.snapshot_points) {
    if (point > sequence.computed) return point;
  }
  return sequence.prompt_tokens;
}

/// Prompt lengths after which the state is worth keeping: where the hints say, where the prompt
/// leaves what earlier prompts had, at regular distances, and at its last page boundary.
std::vector<std::int64_t> SnapshotPoints(const Sequence& sequence, std::int64_t matched_pages) {
  std::vector<std::int64_t> pages = sequence.request->request.cache_points;
  for (std::int64_t& point : pages) point /= kPageTokens;
  pages.push_back(matched_pages);
  for (std::int64_t b = kSnapshotDistance; b < sequence.shareable_pages(); b += kSnapshotDistance) {
    pages.push_back(b);
  }
  pages.push_back(sequence.shareable_pages());
  std::sort(pages.begin(), pages.end());
  std::vector<std::int64_t> points;
  for (const std::int64_t b : pages) {
    const std::int64_t point = b * kPageTokens;
    const bool useful = point > sequence.computed && b <= sequence.shareable_pages();
    if (useful && (points.empty() || points.back() != point)) points.push_back(point);
  }
  return points;
}

/// Whose prompts it may share.
std::uint64_t GroupOf(const Sequence& sequence) {
  return sequence.request->request.prefix_group;
}

}  // namespace

void StepPlan::Clear() {
  saves.clear();
  copies.clear();
  hits.clear();
  dropped.clear();
  restores.clear();
  items.clear();
  rows = 0;
}

Scheduler::Scheduler(const SchedulerLimits& limits, std::int64_t pages, HostTier* tier)
    : limits_(limits), pages_(pages), tree_(pages_, limits.with_draft), tier_(tier) {
  if (tier_ != nullptr) {
    tree_.OnLeave([this](const LeavingPrefix& leaving) {
      // Room first: a unit in the tier must be filled.
      if (writes_.size() == writes_.capacity()) writes_.reserve(2 * writes_.size() + 8);
      if (auto write = tier_->Take(leaving)) writes_.push_back(*std::move(write));
    });
  }
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
    pages_.Free(sequence.pages);
    sequence.pages.clear();
    free_slots_.push_back(sequence.slot);
    std::erase(running_, &sequence);
  } else {
    if (sequence.stage == Stage::kPreempted) --preempted_;
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
    if (sequence.stage != Stage::kDecode || !sequence.mask_ready()) continue;
    const std::int64_t rows = 1 + sequence.draft_count();
    bool fits = Grow(sequence, plan);
    while (!fits && running_.back() != &sequence) {
      Preempt(*running_.back(), plan);
      fits = Grow(sequence, plan);
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
  for (std::size_t i = 0; i < queue_.size() && !free_slots_.empty();) {
    Sequence& sequence = *queue_[i];
    if (!sequence.mask_ready() || (sequence.stage == Stage::kWaiting && !MayStart())) {
      ++i;
      continue;
    }
    if (MustWaitForSibling(sequence)) return;
    if (sequence.stage == Stage::kWaiting && !TakeOver(sequence, plan)) return;
    if (sequence.stage == Stage::kPreempted && !Grow(sequence, plan)) return;
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    sequence.slot = free_slots_.back();
    free_slots_.pop_back();
    if (sequence.stage == Stage::kPreempted) {
      plan.restores.push_back(&sequence);
      --preempted_;
    }
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
  const std::int64_t most =
      plan.rows == 0 ? limits_.max_step_rows
                     : std::min(limits_.max_step_rows, plan.rows + limits_.prefill_beside_decode);
  for (Sequence* sequence : turns_) {
    const std::int64_t left = NextStop(*sequence) - sequence->computed;
    const std::int64_t budget = most - plan.rows;
    std::int64_t rows = std::min({left, limits_.prefill_chunk, budget});
    if (rows < left) rows -= rows % kPageTokens;  // chunks end at page boundaries or the prompt's
    if (rows <= 0) return;
    sequence->last_prefill_step = step_;
    plan.items.push_back({sequence, rows, Phase::kPrefill, sequence->computed});
    plan.rows += rows;
  }
}

/// Extends the page table to the step's reach; false, and nothing is taken, when it cannot.
bool Scheduler::Grow(Sequence& sequence, StepPlan& plan) {
  const std::int64_t missing =
      CeilDiv(sequence.reach(), kPageTokens) - static_cast<std::int64_t>(sequence.pages.size());
  if (missing <= 0) return true;
  if (missing > pages_.free_count()) tree_.Evict(missing - pages_.free_count(), plan.dropped);
  if (missing > pages_.free_count()) return false;
  const std::vector<PageId> taken = pages_.Allocate(missing).value();
  sequence.pages.insert(sequence.pages.end(), taken.begin(), taken.end());
  return true;
}

void Scheduler::Preempt(Sequence& sequence, StepPlan& plan) {
  ++preemptions_;
  ++preempted_;
  pages_.Free(sequence.pages);
  free_slots_.push_back(sequence.slot);
  plan.saves.push_back({&sequence, std::move(sequence.pages), sequence.slot});
  sequence.pages.clear();
  sequence.slot = -1;
  sequence.stage = Stage::kPreempted;
  std::erase(running_, &sequence);
  InsertByArrival(queue_, sequence);
  assert(preempted_ <= MaxPreempted(limits_));
}

/// Choices after the first wait for its prompt, which they will then share.
bool Scheduler::MustWaitForSibling(const Sequence& sequence) const {
  if (sequence.choice == 0 || limits_.max_snapshots == 0) return false;
  const Stage first = sequence.request->sequences.front()->stage;
  return sequence.stage == Stage::kWaiting &&
         (first == Stage::kPrefill || first == Stage::kWaiting);
}

/// Whether the sequence's prompt is looked up. One whose every row is asked for is computed.
bool Scheduler::MayTakeOver(const Sequence& sequence) const {
  return limits_.max_snapshots > 0 && !sequence.prompt_rows &&
         (!limits_.choices_only || sequence.choice > 0);
}

/// Whether others may find the sequence's prompt.
bool Scheduler::MayHandOn(const Sequence& sequence) const {
  return limits_.max_snapshots > 0 &&
         (!limits_.choices_only || sequence.request->sequences.size() > 1);
}

/// Gives a new sequence its pages: those of the longest usable beginning that is known, and fresh
/// ones. False, and nothing is taken, when there are too few.
bool Scheduler::TakeOver(Sequence& sequence, StepPlan& plan) {
  const bool look = MayTakeOver(sequence);
  const PrefixHit hit =
      look ? tree_.Find(sequence.prompt(), sequence.shareable_pages(), GroupOf(sequence))
           : PrefixHit{};
  const auto found = static_cast<std::int64_t>(hit.pages.size());
  if (look && tier_ != nullptr) {
    const TierHit far = tier_->Find(sequence.prompt(), sequence.shareable_pages(),
                                    GroupOf(sequence), std::ssize(hit.known), found);
    if (far.pages > 0) return TakeOverFromTier(sequence, hit, far, plan);
  }
  // With a draft layer the last page's last row depends on the token after it: a copy of its own.
  const bool copy = limits_.with_draft && found > 0;
  const auto shared = std::span(hit.pages).first(hit.pages.size() - (copy ? 1 : 0));
  sequence.pages.assign(shared.begin(), shared.end());
  pages_.Retain(shared);
  if (copy) pages_.Retain({&hit.pages.back(), 1});  // not to be evicted before it is copied
  const bool fits = Grow(sequence, plan);
  if (copy) pages_.Free({&hit.pages.back(), 1});
  if (!fits) {
    pages_.Free(sequence.pages);
    sequence.pages.clear();
    // Alone it needs no copy beside the original when it computes everything itself.
    return running_.empty() && Grow(sequence, plan);
  }
  if (copy) plan.copies.push_back({hit.pages.back(), sequence.pages[shared.size()]});
  if (found > 0) plan.hits.push_back({&sequence, hit.snapshot});
  sequence.computed = found * kPageTokens;
  if (MayHandOn(sequence)) sequence.snapshot_points = SnapshotPoints(sequence, hit.matched_pages);
  CountLookup(sequence, look, found);
  return true;
}

void Scheduler::CountLookup(const Sequence& sequence, bool looked, std::int64_t found) {
  if (looked) {
    ++prefix_counts_.lookups;
    prefix_counts_.tokens += static_cast<std::uint64_t>(sequence.prompt_tokens);
  }
  prefix_counts_.hits += found > 0 ? 1 : 0;
  prefix_counts_.pages += static_cast<std::uint64_t>(found);
}

/// As TakeOver, with the pages that are still in the pools and copies of the others. With a draft
/// layer the last page is always a copy, whose last row is computed again.
bool Scheduler::TakeOverFromTier(Sequence& sequence, const PrefixHit& near, const TierHit& far,
                                 StepPlan& plan) {
  const std::int64_t shareable = far.pages - (limits_.with_draft ? 1 : 0);
  const std::int64_t shared = std::min<std::int64_t>(std::ssize(near.known), shareable);
  const auto pages = std::span(near.known).first(static_cast<std::size_t>(shared));
  sequence.pages.assign(pages.begin(), pages.end());
  pages_.Retain(pages);
  if (!Grow(sequence, plan)) {
    pages_.Free(sequence.pages);
    sequence.pages.clear();
    return false;
  }
  PlanHit hit{.sequence = &sequence, .unit = far.chain.back()};
  for (const auto& unit : far.chain) {
    const std::int64_t from = std::max(unit->name.first, shared);
    if (from >= unit->name.last) continue;
    const auto own = sequence.pages.begin();
    hit.reads.push_back({unit, from - unit->name.first, {own + from, own + unit->name.last}});
  }
  tier_->OnHit(far.pages, hit.reads.empty() ? 0 : far.pages - shared);
  plan.hits.push_back(std::move(hit));
  sequence.computed = far.pages * kPageTokens;
  if (MayHandOn(sequence)) sequence.snapshot_points = SnapshotPoints(sequence, near.matched_pages);
  CountLookup(sequence, true, far.pages);
  return true;
}

void Scheduler::CachePages(const StepPlan& plan, std::vector<PlanKeep>& keeps,
                           std::vector<SnapshotId>& dropped) {
  keeps.clear();
  dropped.clear();
  try {
    // Room for all, so that what the tree says of a snapshot is told too.
    keeps.reserve(plan.items.size());
    dropped.reserve(2 * plan.items.size());
    for (std::size_t i = 0; i < plan.items.size(); ++i) CacheItem(plan, i, keeps, dropped);
  } catch (const std::bad_alloc&) {
    // What could not be shared is computed again when it comes again.
  }
}

void Scheduler::CacheItem(const StepPlan& plan, std::size_t i, std::vector<PlanKeep>& keeps,
                          std::vector<SnapshotId>& dropped) {
  const PlanItem& item = plan.items[i];
  Sequence& sequence = *item.sequence;
  if (!sequence.running() || !MayHandOn(sequence)) return;
  const bool prompt = item.phase == Phase::kPrefill;
  if (!prompt && !limits_.cache_generated) return;
  if (prompt ? !CachePrompt(sequence) : !CacheAnswer(sequence, item.first_position, dropped)) {
    return;
  }
  if (tree_.snapshots() == limits_.max_snapshots) dropped.push_back(*tree_.DropSnapshot());
  const SnapshotId id{next_snapshot_++};
  const std::int64_t pages = sequence.computed / kPageTokens;
  tree_.AttachSnapshot(sequence.tokens, pages, id, GroupOf(sequence));
  if (!prompt) sequence.answer_snapshot = id;
  keeps.push_back({i, pages * kPageTokens, id});
}

void Scheduler::GiveUp(std::span<const PlanKeep> keeps) {
  for (const PlanKeep& keep : keeps) tree_.DropSnapshot(keep.snapshot);
}

/// Shares the complete pages of a prompt. Whether the state after them is worth keeping.
bool Scheduler::CachePrompt(const Sequence& sequence) {
  const std::int64_t pages = std::min(sequence.computed / kPageTokens, sequence.shareable_pages());
  tree_.Insert(sequence.prompt(), std::span(sequence.pages).first(static_cast<std::size_t>(pages)),
               GroupOf(sequence));
  const auto& points = sequence.snapshot_points;
  return std::find(points.begin(), points.end(), sequence.computed) != points.end() &&
         tree_.WantsSnapshot(sequence.prompt(), pages, GroupOf(sequence));
}

/// Shares the pages of a sequence that has generated tokens from `before` on. Whether the state
/// after them is worth keeping: then that before the last of them gives way, but at regular
/// distances, because the next turn goes on where this one ends.
bool Scheduler::CacheAnswer(Sequence& sequence, std::int64_t before,
                            std::vector<SnapshotId>& dropped) {
  const std::int64_t pages = sequence.computed / kPageTokens;
  if (pages == before / kPageTokens) return false;
  tree_.Insert(sequence.tokens, std::span(sequence.pages).first(static_cast<std::size_t>(pages)),
               GroupOf(sequence));
  if (!tree_.WantsSnapshot(sequence.tokens, pages, GroupOf(sequence))) return false;
  const bool regular = (pages - 1) % kSnapshotDistance == 0;
  if (sequence.answer_snapshot && !regular && tree_.DropSnapshot(*sequence.answer_snapshot)) {
    dropped.push_back(*sequence.answer_snapshot);
  }
  return true;
}

}  // namespace kv8
