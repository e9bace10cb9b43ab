#include "engine/runner.h"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "engine/sampler.h"

namespace kv8 {
namespace {

// Rows of prompt logits computed at a time: bounds memory whatever the prompt.
constexpr std::int64_t kPromptLogitRows = 32;

/// rows = begin, begin + 1, ... , `count` of them.
void FillRows(std::vector<std::int64_t>& rows, std::int64_t begin, std::int64_t count) {
  rows.clear();
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
}

}  // namespace

std::int64_t LogitRows(int slots, int drafts) {
  return std::max(std::int64_t{slots} * (1 + drafts), kPromptLogitRows);
}

Runner::Runner(const LoadedModel& model, const KvCachePlan& cache, std::int64_t preempted_bytes,
               std::unique_ptr<Executor> executor)
    : cache_(cache),
      state_bytes_(StateLayout::For(model.model().spec, model.with_draft()).bytes()),
      stream_width_(model.model().spec.stream_width()),
      with_draft_(model.with_draft()),
      executor_(std::move(executor)),
      most_saved_bytes_(preempted_bytes) {}

void Runner::Run(const StepPlan& plan) {
  for (const PlanSave& save : plan.saves) Save(save);
  for (const PlanCopy& copy : plan.copies) executor_->CopyPage(copy.from, copy.to);
  for (const Sequence* sequence : plan.restores) Restore(*sequence);
  TakeOver(plan.hits);
  for (const SnapshotId id : plan.dropped) snapshots_.erase(id);
  ids_.clear();
  items_.clear();
  row_begins_.clear();
  item_logits_.clear();
  item_tokens_.clear();
  if (plan.items.empty()) return;
  for (const PlanItem& item : plan.items) AddRows(item);
  executor_->Forward(ids_, items_);
  FeedPromptRows(plan);
  ComputeLogits(plan);
}

void Runner::Save(const PlanSave& save) {
  Saved saved{Bytes(static_cast<std::size_t>(state_bytes_)),
              Bytes(save.pages.size() * static_cast<std::size_t>(cache_.page_bytes()))};
  executor_->SaveState(save.slot, std::nullopt, saved.state);
  executor_->SavePages(save.pages, saved.pages);
  saved_bytes_ += saved.bytes();
  assert(saved_bytes_ <= most_saved_bytes_);
  saved_.insert_or_assign(save.sequence, std::move(saved));
}

void Runner::Forget(const Sequence& sequence) {
  const auto saved = saved_.find(&sequence);
  if (saved == saved_.end()) return;
  saved_bytes_ -= saved->second.bytes();
  saved_.erase(saved);
}

void Runner::Restore(const Sequence& sequence) {
  const auto saved = saved_.find(&sequence);
  executor_->LoadState(saved->second.state, sequence.slot);
  const std::size_t pages =
      saved->second.pages.size() / static_cast<std::size_t>(cache_.page_bytes());
  executor_->LoadPages(saved->second.pages, std::span(sequence.pages).first(pages));
  Forget(sequence);
}

void Runner::AddRows(const PlanItem& item) {
  const Sequence& sequence = *item.sequence;
  if (item.first_position == 0) executor_->Reset(sequence.slot);
  row_begins_.push_back(std::ssize(ids_));
  items_.push_back({.slot = sequence.slot,
                    .rows = item.rows,
                    .first_position = item.first_position,
                    .phase = item.phase,
                    .pages = sequence.pages});
  for (std::int64_t i = 0; i < item.rows; ++i) {
    ids_.push_back(sequence.TokenAt(item.first_position + i));
  }
}

void Runner::Rollback(const PlanItem& item, std::int64_t kept) {
  if (kept < item.rows) executor_->Rollback(item.sequence->slot, kept);
}

void Runner::FeedPromptRows(const StepPlan& plan) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const PlanItem& item = plan.items[i];
    Sequence& sequence = *item.sequence;
    if (!sequence.prompt_rows || item.phase != Phase::kPrefill) continue;
    for (std::int64_t first = 0; first < item.rows; first += kPromptLogitRows) {
      FillRows(logit_rows_, row_begins_[i] + first, std::min(kPromptLogitRows, item.rows - first));
      const Matrix logits = executor_->Logits(logit_rows_);
      for (std::int64_t r = 0; r < logits.rows && sequence.finite; ++r) {
        sequence.finite = AllFinite(logits.row(r));
        if (sequence.finite) sequence.prompt_rows(item.first_position + first + r, logits.row(r));
      }
    }
  }
}

/// The item's rows that a token follows: begin and end.
std::pair<std::int64_t, std::int64_t> Runner::HeadRows(const PlanItem& item, std::int64_t begin) {
  const std::int64_t end = begin + item.rows;
  if (!item.yields_token()) return {end, end};
  return {item.phase == Phase::kDecode ? begin : end - 1, end};
}

bool Runner::Chooses(const PlanItem& item) const {
  return executor_->chooses_tokens() && !NeedsLogits(*item.sequence);
}

/// Rows whose logits are read, and rows whose token is chosen where the logits are.
void Runner::SortHeadRows(const StepPlan& plan) {
  logit_rows_.clear();
  choice_rows_.clear();
  rules_.clear();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const Sequence& sequence = *plan.items[i].sequence;
    const bool chooses = Chooses(plan.items[i]);
    const auto [begin, end] = HeadRows(plan.items[i], row_begins_[i]);
    for (std::int64_t row = begin; row < end; ++row) {
      (chooses ? choice_rows_ : logit_rows_).push_back(row);
      if (!chooses) continue;
      const SamplingOptions& options = sequence.request->request.sampling;
      const std::int64_t position = sequence.size() + row - begin;  // as if drafts were accepted
      rules_.push_back(
          RuleOf(options, RandomAt(options.seed, sequence.choice, position, Draw::kToken)));
    }
  }
}

void Runner::ComputeLogits(const StepPlan& plan) {
  SortHeadRows(plan);
  std::span<const TokenId> tokens;
  Matrix logits;
  if (!choice_rows_.empty()) tokens = executor_->ChooseTokens(choice_rows_, rules_);
  if (!logit_rows_.empty()) logits = executor_->Logits(logit_rows_);
  std::int64_t next = 0;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const auto [begin, end] = HeadRows(plan.items[i], row_begins_[i]);
    const bool chooses = Chooses(plan.items[i]);
    item_tokens_.push_back(tokens.first(chooses ? static_cast<std::size_t>(end - begin) : 0));
    tokens = tokens.subspan(item_tokens_.back().size());
    item_logits_.push_back(chooses ? Matrix() : logits.Rows(next, end - begin));
    next += item_logits_.back().rows;
  }
}

/// Starts sequences from snapshots. The draft layer's last row depends on the token that follows
/// in this prompt, so it is computed again.
void Runner::TakeOver(std::span<const PlanHit> hits) {
  std::vector<DraftItem> items;
  for (const PlanHit& hit : hits) {
    const std::int64_t row = std::ssize(items);
    LoadStart(hit, row);
    if (!with_draft_) continue;
    items.push_back({hit.sequence, hit.sequence->computed - 1, 1, row});
  }
  if (!items.empty()) Draft(items, StreamSource::kTarget);
}

/// The state that a sequence goes on from, the pages that come with it, and with a draft head the
/// streams of its last row, to `row`.
void Runner::LoadStart(const PlanHit& hit, std::int64_t row) {
  const int slot = hit.sequence->slot;
  if (hit.unit == nullptr) {
    const Snapshot& snapshot = snapshots_.at(hit.snapshot);
    executor_->LoadState(snapshot.state, slot);
    if (with_draft_) executor_->LoadStreams(snapshot.last_streams, row);
    return;
  }
  const auto page = static_cast<std::size_t>(cache_.page_bytes());
  for (const PlanRead& read : hit.reads) {
    const auto bytes = read.unit->pages->buffer().bytes();
    const auto begin = static_cast<std::size_t>(read.first) * page;
    executor_->LoadPages(bytes.subspan(begin, read.to.size() * page), read.to);
  }
  const auto state = hit.unit->state->buffer().bytes();
  executor_->LoadState(state.first(static_cast<std::size_t>(state_bytes_)), slot);
  if (!with_draft_) return;
  std::vector<float> streams(static_cast<std::size_t>(stream_width_));
  std::ranges::copy(state.subspan(static_cast<std::size_t>(state_bytes_)),
                    std::as_writable_bytes(std::span(streams)).begin());
  executor_->LoadStreams(streams, row);
}

std::vector<std::shared_ptr<KvUnit>> Runner::WriteBack(std::span<const TierWrite> writes) {
  std::vector<std::shared_ptr<KvUnit>> missed;
  for (const TierWrite& write : writes) {
    const auto snapshot = snapshots_.find(write.snapshot);
    if (snapshot == snapshots_.end()) {
      missed.push_back(write.unit);
      continue;
    }
    if (!write.pages.empty()) {
      executor_->SavePages(write.pages, write.unit->pages->buffer().bytes());
    }
    const auto state = write.unit->state->buffer().bytes();
    const auto streams = std::as_bytes(std::span(snapshot->second.last_streams));
    std::ranges::copy(streams, std::ranges::copy(snapshot->second.state, state.begin()).out);
    write.unit->written = true;
  }
  return missed;
}

std::span<const PlanKeep> Runner::KeepSnapshots(const StepPlan& plan,
                                                std::span<const PlanKeep> keeps,
                                                std::span<const SnapshotId> dropped) {
  for (const SnapshotId id : dropped) snapshots_.erase(id);
  for (; !keeps.empty(); keeps = keeps.subspan(1)) {
    const PlanKeep& keep = keeps.front();
    // One that was preempted in the same step is not worth the copy.
    if (std::find(dropped.begin(), dropped.end(), keep.snapshot) != dropped.end()) continue;
    try {
      snapshots_.emplace(keep.snapshot, TakeSnapshot(plan, keep));
    } catch (const std::bad_alloc&) {
      return keeps;
    }
  }
  return {};
}

Runner::Snapshot Runner::TakeSnapshot(const StepPlan& plan, const PlanKeep& keep) {
  const PlanItem& item = plan.items[keep.item];
  const std::int64_t rows = keep.tokens - item.first_position;
  Snapshot snapshot{Bytes(static_cast<std::size_t>(state_bytes_)), {}};
  // Accepted drafts may reach past the page's end; the ring still holds the tokens before it.
  const bool went_on = keep.tokens < item.sequence->computed;
  executor_->SaveState(item.sequence->slot, went_on ? std::optional(rows) : std::nullopt,
                       snapshot.state);
  if (!with_draft_) return snapshot;
  snapshot.last_streams.resize(static_cast<std::size_t>(stream_width_));
  executor_->SaveStreams(row_begins_[keep.item] + rows - 1, snapshot.last_streams);
  return snapshot;
}

void Runner::Draft(std::span<const DraftItem> items, StreamSource source) {
  sources_.clear();
  for (const DraftItem& item : items) {
    const std::int64_t first = source == StreamSource::kTarget
                                   ? item.source
                                   : draft_last_[static_cast<std::size_t>(item.source)];
    for (std::int64_t i = 0; i < item.rows; ++i) sources_.push_back(first + i);
  }
  ids_.clear();
  items_.clear();
  draft_last_.clear();
  for (const DraftItem& item : items) {
    const Sequence& sequence = *item.sequence;
    items_.push_back({.slot = sequence.slot,
                      .rows = item.rows,
                      .first_position = item.first_position,
                      .phase = Phase::kDecode,
                      .pages = sequence.pages});
    for (std::int64_t i = 0; i < item.rows; ++i) {
      ids_.push_back(sequence.TokenAt(item.first_position + i + 1));
    }
    draft_last_.push_back(std::ssize(ids_) - 1);
  }
  executor_->Draft(ids_, items_, sources_, source);
}

Matrix Runner::DraftLogits(std::int64_t n) {
  return executor_->DraftLogits(std::span(draft_last_).first(static_cast<std::size_t>(n)));
}

std::span<const TokenId> Runner::BestDraftTokens(std::int64_t n) {
  return executor_->BestDraftTokens(std::span(draft_last_).first(static_cast<std::size_t>(n)));
}

}  // namespace kv8
