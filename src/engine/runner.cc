#include "engine/runner.h"

#include <algorithm>
#include <utility>

#include "engine/sampler.h"

namespace kv8 {
namespace {

// Rows of prompt logits computed at a time: bounds memory whatever the prompt.
constexpr std::int64_t kPromptLogitRows = 32;

std::int64_t StreamWidth(const ModelConfig& config) {
  return static_cast<std::int64_t>(config.streams) * config.hidden;
}

/// Rows of logits that a step can need at once.
std::int64_t LogitRows(const RunnerLimits& limits) {
  return std::max(std::int64_t{limits.slots} * (1 + limits.drafts), kPromptLogitRows);
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::Create(const LoadedModel& model,
                                               const RunnerLimits& limits) {
  KV8_ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(limits.cache, model.scales()));
  return std::unique_ptr<Runner>(new Runner(model, limits, std::move(cache)));
}

Runner::Runner(const LoadedModel& model, const RunnerLimits& limits, KvCache cache)
    : model_(model.model()),
      layout_(model_.SequenceLayout(model.with_draft())),
      width_(StreamWidth(model_.config())),
      vocab_(model_.config().vocab),
      pool_(limits.threads),
      cache_(std::move(cache)),
      workspace_(model_.config()),
      drafts_(limits.drafts) {
  workspace_.Resize(limits.max_rows);
  for (int i = 0; i < limits.slots; ++i) states_.emplace_back(layout_);
  StateLayout trail_layout = layout_;
  trail_layout.index_rings = 0;
  for (int i = 0; i < limits.slots * drafts_; ++i) trails_.emplace_back(trail_layout);
  ids_.reserve(static_cast<std::size_t>(limits.max_rows));
  rows_.reserve(static_cast<std::size_t>(limits.slots));
  item_logits_.reserve(static_cast<std::size_t>(limits.slots));
  const std::int64_t logit_rows = LogitRows(limits);
  streams_.resize(static_cast<std::size_t>(limits.max_rows * width_));
  token_streams_.resize(static_cast<std::size_t>(logit_rows * width_));
  logits_.resize(static_cast<std::size_t>(logit_rows * vocab_));
  if (!model.with_draft()) return;
  draft_input_.resize(streams_.size());
  draft_streams_.resize(streams_.size());
  draft_last_.reserve(static_cast<std::size_t>(limits.slots));
}

std::int64_t Runner::activation_bytes() const {
  return workspace_.bytes() +
         static_cast<std::int64_t>((streams_.size() + token_streams_.size() + logits_.size() +
                                    draft_input_.size() + draft_streams_.size()) *
                                   sizeof(float));
}

std::int64_t Runner::PlannedActivationBytes(const LoadedModel& model, const RunnerLimits& limits) {
  const ModelConfig& config = model.model().config();
  const std::int64_t width = StreamWidth(config);
  const std::int64_t streams = limits.max_rows * width * (model.with_draft() ? 3 : 1);
  const std::int64_t logits = LogitRows(limits) * (width + config.vocab);
  return Workspace::PlannedBytes(config, limits.max_rows) +
         (streams + logits) * static_cast<std::int64_t>(sizeof(float));
}

ForwardContext Runner::Context() {
  return ForwardContext{OpContext{pool_}, cache_, workspace_};
}

Matrix Runner::Streams(std::int64_t rows) {
  return Matrix(streams_.data(), rows, width_);
}

void Runner::Run(const StepPlan& plan) {
  for (const PlanSave& save : plan.saves) Save(save);
  for (const PlanCopy& copy : plan.copies) cache_.CopyBlock(copy.from, copy.to);
  for (const Sequence* sequence : plan.restores) Restore(*sequence);
  TakeOver(plan.hits);
  for (const SnapshotId id : plan.dropped) snapshots_.erase(id);
  ids_.clear();
  rows_.clear();
  item_logits_.clear();
  if (plan.items.empty()) return;
  for (const PlanItem& item : plan.items) AddRows(item);
  model_.Forward(Context(), Batch{ids_, rows_}, Streams(plan.rows));
  FeedPromptRows(plan);
  ComputeLogits(plan);
}

void Runner::Save(const PlanSave& save) {
  Saved saved{SequenceState(layout_), {}};
  saved.state.CopyFrom(states_[static_cast<std::size_t>(save.slot)]);
  saved.blocks.resize(save.blocks.size() * static_cast<std::size_t>(cache_.block_bytes()));
  cache_.CopyOut(save.blocks, saved.blocks);
  saved_.insert_or_assign(save.sequence, std::move(saved));
}

void Runner::Restore(const Sequence& sequence) {
  const auto saved = saved_.find(&sequence);
  states_[static_cast<std::size_t>(sequence.slot)].CopyFrom(saved->second.state);
  const std::size_t blocks =
      saved->second.blocks.size() / static_cast<std::size_t>(cache_.block_bytes());
  cache_.CopyIn(saved->second.blocks, std::span(sequence.blocks).first(blocks));
  saved_.erase(saved);
}

void Runner::AddRows(const PlanItem& item) {
  const Sequence& sequence = *item.sequence;
  SequenceState& state = states_[static_cast<std::size_t>(sequence.slot)];
  if (item.first_position == 0) state.Reset();
  rows_.push_back({.row_begin = static_cast<std::int64_t>(ids_.size()),
                   .row_count = item.rows,
                   .first_position = item.first_position,
                   .phase = item.phase,
                   .state = &state,
                   .blocks = sequence.blocks,
                   .trail = Trail(item)});
  for (std::int64_t i = 0; i < item.rows; ++i) {
    ids_.push_back(sequence.TokenAt(item.first_position + i));
  }
}

std::span<SequenceState> Runner::Trail(const PlanItem& item) {
  if (item.phase == Phase::kPrefill) return {};
  const auto first = static_cast<std::size_t>(item.sequence->slot * drafts_);
  return std::span(trails_).subspan(first, static_cast<std::size_t>(item.rows - 1));
}

void Runner::Rollback(const PlanItem& item, std::int64_t kept) {
  if (kept == item.rows) return;
  states_[static_cast<std::size_t>(item.sequence->slot)].CopyRecurrentFrom(
      Trail(item)[static_cast<std::size_t>(kept - 1)]);
}

void Runner::FeedPromptRows(const StepPlan& plan) {
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    Sequence& sequence = *plan.items[i].sequence;
    if (!sequence.prompt_rows || plan.items[i].phase != Phase::kPrefill) continue;
    const SequenceRows& rows = rows_[i];
    for (std::int64_t first = 0; first < rows.row_count; first += kPromptLogitRows) {
      const std::int64_t count = std::min(kPromptLogitRows, rows.row_count - first);
      const Matrix logits(logits_.data(), count, vocab_);
      model_.Logits(Context(), Streams(plan.rows).Rows(rows.row_begin + first, count), logits);
      for (std::int64_t r = 0; r < count && sequence.finite; ++r) {
        sequence.finite = AllFinite(logits.row(r));
        if (sequence.finite) sequence.prompt_rows(rows.first_position + first + r, logits.row(r));
      }
    }
  }
}

void Runner::ComputeLogits(const StepPlan& plan) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const PlanItem& item = plan.items[i];
    const std::int64_t count = !item.yields_token()           ? 0
                               : item.phase == Phase::kDecode ? item.rows
                                                              : 1;
    const float* from =
        streams_.data() + (rows_[i].row_begin + rows_[i].row_count - count) * width_;
    std::copy_n(from, count * width_, token_streams_.data() + total * width_);
    item_logits_.emplace_back(logits_.data() + total * vocab_, count, vocab_);
    total += count;
  }
  if (total == 0) return;
  model_.Logits(Context(), ConstMatrix(token_streams_.data(), total, width_),
                Matrix(logits_.data(), total, vocab_));
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
    states_[static_cast<std::size_t>(hit.sequence->slot)].CopyFrom(snapshot.state);
    if (snapshot.last_streams.empty()) continue;
    std::copy(snapshot.last_streams.begin(), snapshot.last_streams.end(),
              draft_input_.begin() + std::ssize(items) * width_);
    items.push_back({hit.sequence, hit.sequence->computed - 1, 1});
  }
  if (!items.empty()) RunDraft(items);
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
  Snapshot snapshot{SequenceState(layout_), {}};
  snapshot.state.CopyFrom(states_[static_cast<std::size_t>(item.sequence->slot)]);
  if (keep.tokens < item.sequence->computed) {
    // Accepted drafts went on past the block's end. The ring still holds what came before it.
    snapshot.state.CopyRecurrentFrom(Trail(item)[static_cast<std::size_t>(rows - 1)]);
  }
  if (draft_input_.empty()) return snapshot;
  std::int64_t last_row = rows - 1;
  for (std::size_t i = 0; i < keep.item; ++i) last_row += plan.items[i].rows;
  const auto row = streams_.begin() + last_row * width_;
  snapshot.last_streams.assign(row, row + width_);
  return snapshot;
}

void Runner::Draft(std::span<const DraftItem> items, DraftSource source) {
  const auto& streams = source == DraftSource::kTarget ? streams_ : draft_streams_;
  std::int64_t row_begin = 0;
  for (const DraftItem& item : items) {
    const std::int64_t row = source == DraftSource::kTarget
                                 ? item.source_row
                                 : draft_last_[static_cast<std::size_t>(item.source_row)];
    std::copy_n(streams.data() + row * width_, item.rows * width_,
                draft_input_.data() + row_begin * width_);
    row_begin += item.rows;
  }
  RunDraft(items);
}

/// A draft pass over the items' rows, whose streams stand in draft_input_.
void Runner::RunDraft(std::span<const DraftItem> items) {
  ids_.clear();
  rows_.clear();
  draft_last_.clear();
  for (const DraftItem& item : items) {
    const Sequence& sequence = *item.sequence;
    rows_.push_back({.row_begin = static_cast<std::int64_t>(ids_.size()),
                     .row_count = item.rows,
                     .first_position = item.first_position,
                     .phase = Phase::kDecode,
                     .state = &states_[static_cast<std::size_t>(sequence.slot)],
                     .blocks = sequence.blocks});
    for (std::int64_t i = 0; i < item.rows; ++i) {
      ids_.push_back(sequence.TokenAt(item.first_position + i + 1));
    }
    draft_last_.push_back(static_cast<std::int64_t>(ids_.size()) - 1);
  }
  const auto count = static_cast<std::int64_t>(ids_.size());
  model_.Draft(Context(), Batch{ids_, rows_}, ConstMatrix(draft_input_.data(), count, width_),
               Matrix(draft_streams_.data(), count, width_));
}

Matrix Runner::DraftLogits(std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = draft_last_[static_cast<std::size_t>(i)];
    std::copy_n(draft_streams_.data() + row * width_, width_, token_streams_.data() + i * width_);
  }
  const Matrix logits(logits_.data(), n, vocab_);
  model_.DraftLogits(Context(), ConstMatrix(token_streams_.data(), n, width_), logits);
  return logits;
}

}  // namespace kv8
