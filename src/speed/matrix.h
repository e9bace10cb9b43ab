// Prefill and decode of a number of prompts of one length.
#pragma once

#include <cstdint>
#include <optional>

#include "kv8/error.h"
#include "speed/prompts.h"
#include "speed/target.h"

namespace kv8 {

/// A cell of the matrix.
struct Cell {
  std::int64_t context = 0;    // tokens of each prompt
  std::int64_t sequences = 1;  // that run at once
  std::int64_t output = 0;     // tokens of each that are timed

  bool operator==(const Cell&) const = default;
};

struct CellTimes {
  double prefill_tokens_per_second = 0;  // all prompts, until the last has its first token
  double first_token_seconds = 0;        // mean over prompts
  /// All sequences, from where the last has its first token to where each has `output` more.
  double decode_tokens_per_second = 0;
  double tokens_per_step = 1;
  std::optional<double> acceptance;  // of drafted tokens; absent without drafts
};

/// Tokens that the first sequence may generate before the last prompt is through, and all that are
/// timed: the most tokens of a request. `pass` rows are in a pass of prompts at least.
std::int64_t MostTokens(const Cell& cell, std::int64_t pass, int drafts);

/// Prompts that no earlier one begins like. Errors: those of the target; kMismatch when a prefix
/// hit supplied a token, and when a request ended before it was timed.
Result<CellTimes> MeasureCell(SpeedTarget& target, PromptSource& prompts, const Cell& cell,
                              std::int64_t most_tokens);

}  // namespace kv8
