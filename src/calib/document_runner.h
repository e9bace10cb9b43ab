// One document at a time through the target and the draft head, prefill only, on any device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/executor.h"

namespace kv8 {

/// Owns an executor for one sequence.
class DocumentRunner {
 public:
  /// Called after every chunk with the document's tokens done so far; false stops the document.
  using OnChunk = std::function<bool(std::int64_t tokens_done)>;

  /// Rows of one pass: enough to use every core well, few enough to keep activations small. Results
  /// do not depend on it; it must be a multiple of 64.
  static constexpr std::int64_t kChunkTokens = 512;

  /// `executor` was built for at least one slot, kChunkTokens rows and the longest document;
  /// `pages` are those of its pools.
  DocumentRunner(std::unique_ptr<Executor> executor, std::int64_t pages, bool with_draft);

  /// Runs `ids` from an empty sequence: every row of the target, and of the draft head all rows but
  /// the last, which has no next token to pair with. False when `on_chunk` stopped it.
  /// Errors: what the device says.
  Result<bool> Run(std::span<const TokenId> ids, const OnChunk& on_chunk);

  Executor& executor() { return *executor_; }

 private:
  std::unique_ptr<Executor> executor_;
  std::vector<PageId> pages_;          // the whole pool, in order
  std::vector<std::int64_t> sources_;  // 0, 1, 2, ...
  bool with_draft_;
};

}  // namespace kv8
