#include "model/cpu/cpu_executor.h"

#include <algorithm>
#include <utility>

#include "model/cpu/op_sizes.h"
#include "model/forward.h"

namespace kv8 {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));
constexpr auto kHeadBytes = static_cast<std::int64_t>(sizeof(HeadMagnitudes));
constexpr auto kMaximumBytes = static_cast<std::int64_t>(sizeof(std::uint32_t));

/// A pass over the batch, or a mix and head over rows of logits.
ScratchSize PlanScratch(const ModelSpec& spec, const OpTable& ops, const ExecutorLimits& limits) {
  return ops.scratch(OpSizesOf(spec, std::max(limits.max_rows, limits.logit_rows), limits.slots,
                               limits.sequence_pages * limits.cache.index.keys_per_page,
                               limits.threads));
}

}  // namespace

Result<std::unique_ptr<Executor>> CpuExecutor::Create(const Model& model,
                                                      const ExecutorLimits& limits) {
  KV8_ASSIGN_OR_RETURN(const OpTable* const ops, FindOps(limits.backend));
  KV8_ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(limits.cache, limits.scales));
  std::unique_ptr<TableRows> rows;
  if (limits.table_cache && model.spec.ple) {
    KV8_ASSIGN_OR_RETURN(rows, TableRows::Open(model, *limits.files, *limits.table_cache,
                                               limits.max_rows, OpenRing()));
  }
  return std::unique_ptr<Executor>(
      new CpuExecutor(model, limits, *ops, std::move(cache), std::move(rows)));
}

CpuExecutor::CpuExecutor(const Model& model, const ExecutorLimits& limits, const OpTable& ops,
                         KvCache cache, std::unique_ptr<TableRows> table_rows)
    : model_(model),
      ops_(ops),
      width_(model_.spec.stream_width()),
      layout_(StateLayout::For(model_.spec, limits.with_draft)),
      trail_layout_(layout_.Recurrent()),
      drafts_(limits.drafts),
      observer_(limits.observer),
      pool_(limits.threads),
      scratch_(PlanScratch(model_.spec, ops, limits), limits.threads),
      cache_(std::move(cache)),
      workspace_(model_.spec),
      table_rows_(std::move(table_rows)) {
  workspace_.Resize(limits.max_rows);
  for (int i = 0; i < limits.slots; ++i) states_.emplace_back(layout_);
  for (int i = 0; i < limits.slots * drafts_; ++i) trails_.emplace_back(trail_layout_);
  sequences_.reserve(static_cast<std::size_t>(limits.slots));
  streams_.resize(static_cast<std::size_t>(limits.max_rows * width_));
  token_streams_.resize(static_cast<std::size_t>(limits.logit_rows * width_));
  logits_.resize(static_cast<std::size_t>(limits.logit_rows * model_.spec.vocab));
  if (limits.observe_kv) {
    magnitudes_.resize(static_cast<std::size_t>(ObservedHeads(limits.cache)));
    max_bits_.resize(static_cast<std::size_t>(limits.slots) * magnitudes_.size());
  }
  if (!limits.with_draft) return;
  draft_input_.resize(streams_.size());
  draft_streams_.resize(streams_.size());
}

Result<ExecutorMemory> CpuExecutor::Plan(const Model& model, const ExecutorLimits& limits) {
  KV8_ASSIGN_OR_RETURN(const OpTable* const ops, FindOps(limits.backend));
  const ModelSpec& config = model.spec;
  const StateLayout layout = StateLayout::For(model.spec, limits.with_draft);
  const std::int64_t width = model.spec.stream_width();
  const std::int64_t streams = limits.max_rows * width * (limits.with_draft ? 3 : 1);
  const std::int64_t observed =
      limits.observe_kv ? ObservedHeads(limits.cache) * (kHeadBytes + limits.slots * kMaximumBytes)
                        : 0;
  const std::int64_t logits = limits.logit_rows * (width + config.vocab);
  const bool reads_rows = limits.table_cache && config.ple;
  const std::int64_t row_work = reads_rows ? TableRows::WorkBytes(model, limits.max_rows) : 0;
  return ExecutorMemory{
      .tables = reads_rows ? TableRows::CacheBytes(model, *limits.table_cache) : 0,
      .states = layout.bytes() * limits.slots,
      .rollback = layout.Recurrent().bytes() * limits.slots * limits.drafts,
      .activations = Workspace::PlannedBytes(config, limits.max_rows) +
                     (streams + logits) * kFloatBytes + observed + row_work,
      .scratch = PlanScratch(model.spec, *ops, limits).bytes(limits.threads)};
}

ExecutorMemory CpuExecutor::memory() const {
  const auto bytes = [](const std::vector<SequenceState>& states) {
    return states.empty() ? 0 : std::ssize(states) * states.front().bytes();
  };
  const std::size_t floats = streams_.size() + token_streams_.size() + logits_.size() +
                             draft_input_.size() + draft_streams_.size();
  return {.tables = table_rows_ ? table_rows_->cache_bytes() : 0,
          .states = bytes(states_),
          .rollback = bytes(trails_),
          .activations = workspace_.bytes() + static_cast<std::int64_t>(floats) * kFloatBytes +
                         std::ssize(magnitudes_) * kHeadBytes +
                         std::ssize(max_bits_) * kMaximumBytes +
                         (table_rows_ ? table_rows_->work_bytes() : 0),
          .scratch = scratch_.bytes()};
}

std::span<SequenceState> CpuExecutor::Trail(int slot, std::int64_t count) {
  return std::span(trails_).subspan(static_cast<std::size_t>(slot * drafts_),
                                    static_cast<std::size_t>(count));
}

std::span<const SequenceRows> CpuExecutor::Sequences(std::span<const SlotRows> items,
                                                     bool with_trail) {
  sequences_.clear();
  std::int64_t row = 0;
  for (const SlotRows& item : items) {
    const bool keep = with_trail && item.phase == Phase::kDecode;
    sequences_.push_back(
        {.row_begin = row,
         .row_count = item.rows,
         .first_position = item.first_position,
         .phase = item.phase,
         .state = &State(item.slot),
         .pages = item.pages,
         .trail = keep ? Trail(item.slot, item.rows - 1) : std::span<SequenceState>(),
         .max_bits = std::span(max_bits_).subspan(
             static_cast<std::size_t>(item.slot) * magnitudes_.size(), magnitudes_.size())});
    row += item.rows;
  }
  return sequences_;
}

void CpuExecutor::Forward(std::span<const TokenId> ids, std::span<const SlotRows> items) {
  const Batch batch{ids, Sequences(items, true)};
  CpuContext context = Context();
  context.observer = observer_;
  context.table_rows = table_rows_.get();
  if (table_rows_) table_rows_->Start(batch, pool_);
  CpuSteps steps(model_.spec, context, batch, Matrix(streams_.data(), std::ssize(ids), width_));
  Note(RunTarget(steps, model_.weights));
}

Matrix CpuExecutor::Gather(const AlignedVector<float>& streams, std::span<const std::int64_t> rows,
                           AlignedVector<float>& to) const {
  float* next = to.data();
  for (const std::int64_t row : rows) {
    next = std::copy_n(streams.data() + row * width_, width_, next);
  }
  return Matrix(to.data(), std::ssize(rows), width_);
}

Matrix CpuExecutor::Head(const AlignedVector<float>& streams, std::span<const std::int64_t> rows,
                         const HyperConnectionWeights& mixer) {
  const Matrix logits(logits_.data(), std::ssize(rows), model_.spec.vocab);
  CpuSteps steps(model_.spec, Context(), Gather(streams, rows, token_streams_), logits);
  Note(RunHead(steps, mixer, model_.weights.lm_head));
  return logits;
}

Matrix CpuExecutor::Logits(std::span<const std::int64_t> rows) {
  return Head(streams_, rows, model_.weights.mixer);
}

void CpuExecutor::Rollback(int slot, std::int64_t kept) {
  State(slot).CopyIn(Trail(slot, kept).back().packed());
}

void CpuExecutor::Draft(std::span<const TokenId> ids, std::span<const SlotRows> items,
                        std::span<const std::int64_t> sources, StreamSource source) {
  const ConstMatrix input =
      Gather(source == StreamSource::kTarget ? streams_ : draft_streams_, sources, draft_input_);
  CpuSteps steps(model_.spec, Context(), Batch{ids, Sequences(items, false)},
                 Matrix(draft_streams_.data(), std::ssize(ids), width_), input);
  Note(RunDraft(steps, model_.weights));
}

Matrix CpuExecutor::DraftLogits(std::span<const std::int64_t> rows) {
  return Head(draft_streams_, rows, model_.weights.mtp->mixer);
}

void CpuExecutor::SaveStreams(std::int64_t row, std::span<float> to) {
  std::copy_n(streams_.data() + row * width_, width_, to.begin());
}

void CpuExecutor::LoadStreams(std::span<const float> from, std::int64_t row) {
  std::ranges::copy(from, streams_.begin() + row * width_);
}

void CpuExecutor::SaveState(int slot, std::optional<std::int64_t> kept, std::span<std::byte> to) {
  std::ranges::copy(State(slot).packed(), to.begin());
  if (kept) std::ranges::copy(Trail(slot, *kept).back().packed(), to.begin());
}

void CpuExecutor::TakeKvMagnitudes(std::span<HeadMagnitudes> to) {
  std::ranges::copy(magnitudes_, to.begin());
  std::ranges::fill(magnitudes_, HeadMagnitudes{});
}

void CpuExecutor::TakeKvMaxima(std::span<std::uint32_t> to) {
  std::ranges::copy(max_bits_, to.begin());
  std::ranges::fill(max_bits_, 0);
}

void CpuExecutor::SavePages(std::span<const PageId> pages, std::span<std::byte> to) {
  cache_.CopyOut(pages, to);
}

void CpuExecutor::LoadPages(std::span<const std::byte> from, std::span<const PageId> pages) {
  cache_.CopyIn(from, pages);
}

}  // namespace kv8
