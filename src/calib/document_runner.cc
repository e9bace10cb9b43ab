#include "calib/document_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kv8 {

DocumentRunner::DocumentRunner(std::unique_ptr<Executor> executor, std::int64_t pages,
                               bool with_draft)
    : executor_(std::move(executor)), sources_(kChunkTokens), with_draft_(with_draft) {
  for (std::int64_t id = 0; id < pages; ++id) pages_.push_back(static_cast<PageId>(id));
  std::iota(sources_.begin(), sources_.end(), 0);
}

Result<bool> DocumentRunner::Run(std::span<const TokenId> ids, const OnChunk& on_chunk) {
  executor_->Reset(0);
  const auto total = static_cast<std::int64_t>(ids.size());
  for (std::int64_t first = 0; first < total; first += kChunkTokens) {
    const std::int64_t count = std::min(kChunkTokens, total - first);
    const std::int64_t pairs = std::min(count, total - 1 - first);
    const auto at = static_cast<std::size_t>(first), rows = static_cast<std::size_t>(pairs);
    SlotRows item{.rows = count, .first_position = first, .pages = pages_};
    executor_->Forward(ids.subspan(at, static_cast<std::size_t>(count)), {&item, 1});
    if (with_draft_ && pairs > 0) {
      item.rows = pairs;
      executor_->Draft(ids.subspan(at + 1, rows), {&item, 1}, std::span(sources_).first(rows),
                       StreamSource::kTarget);
    }
    if (executor_->failure()) return *executor_->failure();
    if (!on_chunk(first + count)) return false;
  }
  return true;
}

}  // namespace kv8
