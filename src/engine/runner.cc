#include "engine/runner.h"

#include <algorithm>
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

Runner::Runner(const LoadedModel& model, const KvCachePlan& cache,
               std::unique_ptr<Executor> executor)
    : cache_(cache),
      layout_(model.model().SequenceLayout(model.with_draft())),
      with_draft_(model.with_draft()),
      executor_(std::move(executor)) {}

void Runner::Run(const StepPlan& plan) {
  for (const PlanSave& save : plan.saves) Save(save);
  for (const PlanCopy& copy : plan.copies) executor_->CopyBlock(copy.from, copy.to);
  for (const Sequence* sequence : plan.restores) Restore(*sequence);
  TakeOver(plan.hits);
  for (const SnapshotId id : plan.dropped) snapshots_.erase(id);
  ids_.clear();
  items_.clear();
  row_begins_.clear();
  item_logits_.clear();
  item_best_.clear();
  if (plan.items.empty()) return;
  for (const PlanItem& item : plan.items) AddRows(item);
  executor_->Forward(ids_, items_);
  FeedPromptRows(plan);
  ComputeLogits(plan);
}

void Runner::Save(const PlanSave& save) {
  Saved saved{Bytes(static_cast<std::size_t>(layout_.bytes())),
              Bytes(save.blocks.size() * static_cast<std::size_t>(cache_.block_bytes()))};
  executor_->SaveState(save.slot, std::nullopt, saved.state);
  executor_->SaveBlocks(save.blocks, saved.blocks);
  saved_.insert_or_assign(save.sequence, std::move(saved));
}

void Runner::Restore(const Sequence& sequence) {
  const auto saved = saved_.find(&sequence);
  executor_->LoadState(saved->second.state, sequence.slot);
  const std::size_t blocks =
      saved->second.blocks.size() / static_cast<std::size_t>(cache_.block_bytes());
  executor_->LoadBlocks(saved->second.blocks, std::span(sequence.blocks).first(blocks));
  saved_.erase(saved);
}

void Runner::AddRows(const PlanItem& item) {
  const Sequence& sequence = *item.sequence;
  if (item.first_position == 0) executor_->Reset(sequence.slot);
  row_begins_.push_back(std::ssize(ids_));
  items_.push_back({.slot = sequence.slot,
                    .rows = item.rows,
                    .first_position = item.first_position,
                    .phase = item.phase,
                    .blocks = sequence.blocks});
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

/// Rows whose logits the plan needs.
void Runner::ChooseLogitRows(const StepPlan& plan) {
  logit_rows_.clear();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const PlanItem& item = plan.items[i];
    if (!item.yields_token()) continue;
    const std::int64_t end = row_begins_[i] + item.rows;
    for (std::int64_t row = item.phase == Phase::kDecode ? row_begins_[i] : end - 1; row < end;
         ++row) {
      logit_rows_.push_back(row);
    }
  }
}

void Runner::ComputeLogits(const StepPlan& plan) {
  ChooseLogitRows(plan);
  const bool best_will_do = std::ranges::all_of(plan.items, [](const PlanItem& item) {
    return !item.yields_token() || TakesBest(*item.sequence);
  });
  std::span<const TokenId> best;
  Matrix logits;
  if (!logit_rows_.empty() && best_will_do) best = executor_->BestTokens(logit_rows_);
  if (!logit_rows_.empty() && best.empty()) logits = executor_->Logits(logit_rows_);
  std::size_t next = 0;
  for (const PlanItem& item : plan.items) {
    const std::int64_t count = !item.yields_token()           ? 0
                               : item.phase == Phase::kDecode ? item.rows
                                                              : 1;
    const auto rows = static_cast<std::size_t>(count);
    item_best_.push_back(best.empty() ? best : best.subspan(next, rows));
    item_logits_.push_back(best.empty() ? logits.Rows(static_cast<std::int64_t>(next), count)
                                        : Matrix());
    next += rows;
  }
}

Matrix Runner::Logits(std::size_t i) {
  return item_logits_[i];
}

/// Starts sequences from snapshots. The draft layer's last row depends on the token that follows
/// in this prompt, so it is computed again.
void Runner::TakeOver(std::span<const PlanHit> hits) {
  std::vector<DraftItem> items;
  for (const PlanHit& hit : hits) {
    const Snapshot& snapshot = snapshots_.at(hit.snapshot);
    executor_->LoadState(snapshot.state, hit.sequence->slot);
    if (!with_draft_) continue;
    const std::int64_t row = std::ssize(items);
    executor_->LoadStreams(snapshot.last_streams, row);
    items.push_back({hit.sequence, hit.sequence->computed - 1, 1, row});
  }
  if (!items.empty()) Draft(items, StreamSource::kTarget);
}

void Runner::KeepSnapshots(const StepPlan& plan, std::span<const PlanKeep> keeps,
                           std::span<const SnapshotId> dropped) {
  for (const SnapshotId id : dropped) snapshots_.erase(id);
  for (const PlanKeep& keep : keeps) {
    // One that had to give way in the same step is not worth the copy.
    if (std::find(dropped.begin(), dropped.end(), keep.snapshot) != dropped.end()) continue;
    snapshots_.emplace(keep.snapshot, TakeSnapshot(plan, keep));
  }
}

Runner::Snapshot Runner::TakeSnapshot(const StepPlan& plan, const PlanKeep& keep) {
  const PlanItem& item = plan.items[keep.item];
  const std::int64_t rows = keep.tokens - item.first_position;
  Snapshot snapshot{Bytes(static_cast<std::size_t>(layout_.bytes())), {}};
  // Accepted drafts may have gone on past the block's end. The ring still holds what came before.
  const bool went_on = keep.tokens < item.sequence->computed;
  executor_->SaveState(item.sequence->slot, went_on ? std::optional(rows) : std::nullopt,
                       snapshot.state);
  if (!with_draft_) return snapshot;
  snapshot.last_streams.resize(static_cast<std::size_t>(layout_.stream_width));
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
                      .blocks = sequence.blocks});
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
