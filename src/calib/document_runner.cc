#include "calib/document_runner.h"

#include <algorithm>
#include <utility>

#include "model/forward.h"

namespace kv8 {
namespace {

/// Rows of one pass: enough to use every core well, few enough to keep activations small. Results
/// do not depend on it; it must be a multiple of 64.
constexpr std::int64_t kChunkTokens = 512;

std::int64_t StreamWidth(const ModelConfig& config) {
  return static_cast<std::int64_t>(config.streams) * config.hidden;
}

std::size_t StreamFloats(const ModelConfig& config) {
  return static_cast<std::size_t>(kChunkTokens * StreamWidth(config));
}

}  // namespace

DocumentRunner::DocumentRunner(const Model& model, const OpTable& ops, ThreadPool& pool,
                               KvCache cache)
    : model_(model),
      ops_(ops),
      pool_(pool),
      cache_(std::move(cache)),
      workspace_(model.config()),
      layout_(model.SequenceLayout(/*with_draft=*/true)),
      state_(layout_),
      streams_(StreamFloats(model.config())),
      draft_streams_(model.config().mtp ? StreamFloats(model.config()) : 0) {
  for (std::int64_t id = 0; id < cache_.plan().blocks; ++id) {
    blocks_.push_back(static_cast<BlockId>(id));
  }
}

bool DocumentRunner::Run(std::span<const TokenId> ids, ForwardObserver* observer,
                         const OnChunk& on_chunk) {
  observer_ = observer;
  state_.Reset();
  const std::int64_t width = StreamWidth(model_.config());
  const auto total = static_cast<std::int64_t>(ids.size());
  for (std::int64_t first = 0; first < total; first += kChunkTokens) {
    const std::int64_t count = std::min(kChunkTokens, total - first);
    const Matrix streams(streams_.data(), count, width);
    const auto at = static_cast<std::size_t>(first);
    RunTarget(ids.subspan(at, static_cast<std::size_t>(count)), first, streams);
    const std::int64_t pairs = std::min(count, total - 1 - first);
    if (model_.config().mtp && pairs > 0) {
      RunDraft(ids.subspan(at + 1, static_cast<std::size_t>(pairs)), first, streams.Rows(0, pairs));
    }
    if (!on_chunk(first + count)) return false;
  }
  return true;
}

void DocumentRunner::RunTarget(std::span<const TokenId> ids, std::int64_t first, Matrix streams) {
  const SequenceRows rows = RowsOf(first, streams.rows);
  CpuSteps steps(model_.config(), Context(), Batch{ids, {&rows, 1}}, streams);
  (void)kv8::RunTarget(steps, model_.weights());  // the CPU has no errors
}

void DocumentRunner::RunDraft(std::span<const TokenId> next_ids, std::int64_t first,
                              ConstMatrix target) {
  const SequenceRows rows = RowsOf(first, target.rows);
  const Matrix streams(draft_streams_.data(), target.rows, target.cols);
  CpuSteps steps(model_.config(), Context(), Batch{next_ids, {&rows, 1}}, streams, target);
  (void)kv8::RunDraft(steps, model_.weights());
}

SequenceRows DocumentRunner::RowsOf(std::int64_t first, std::int64_t count) {
  return {.row_count = count, .first_position = first, .state = &state_, .blocks = blocks_};
}

CpuContext DocumentRunner::Context() {
  return {.ops = ops_,
          .op_context = {pool_},
          .cache = cache_,
          .workspace = workspace_,
          .observer = observer_};
}

}  // namespace kv8
