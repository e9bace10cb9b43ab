// The rows of one forward pass.
#pragma once

#include <cstdint>
#include <span>

#include "kv8/types.h"
#include "kvcache/layout.h"
#include "kvcache/sequence_state.h"

namespace kv8 {

/// Prompts always go through prefill kernels and generated tokens through decode kernels, so that a
/// sequence's results do not depend on the schedule.
enum class Phase { kPrefill, kDecode };

/// Consecutive tokens of one sequence inside a batch. Row i of it has position first_position + i.
struct SequenceRows {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
  std::int64_t first_position = 0;  // a multiple of 64 in prefill
  Phase phase = Phase::kPrefill;
  SequenceState* state = nullptr;
  std::span<const PageId> pages;  // cover every position up to the last row's
  /// Decode only. When not empty, row_count - 1 states of StateLayout::Recurrent: the recurrent
  /// state after each row but the last is kept there, for a rollback. Then row_count is at most
  /// PleConfig::conv_rows, if there are PLE layers.
  std::span<SequenceState> trail = {};
  std::span<std::uint32_t> max_bits = {};  // as CpuContext::magnitudes, of this sequence alone
};

/// Rows of any number of sequences; each sequence appears once.
struct Batch {
  std::span<const TokenId> ids;  // one per row, each in [0, vocab)
  std::span<const SequenceRows> sequences;

  std::int64_t rows() const { return static_cast<std::int64_t>(ids.size()); }
};

}  // namespace kv8
