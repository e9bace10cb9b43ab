// Conversations that grow turn by turn.
#pragma once

#include <cstdint>
#include <vector>

#include "kv8/error.h"
#include "speed/prompts.h"
#include "speed/target.h"

namespace kv8 {

struct Conversations {
  std::int64_t count = 8;
  std::int64_t turns = 4;
  std::int64_t turn_tokens = 512;  // that each turn adds to the prompt
  std::int64_t output = 32;        // tokens of each answer

  /// Of one conversation at its end.
  std::int64_t tokens() const { return turns * (turn_tokens + output); }
};

/// One turn of all conversations.
struct TurnTimes {
  std::vector<double> first_token_seconds;  // one per conversation
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
};

/// Each conversation's turn follows the others' same turn: what is reused has lain while all others
/// ran. A prompt is all that was said before and `turn_tokens` more. Errors: those of the target.
Result<std::vector<TurnTimes>> MeasureConversations(SpeedTarget& target, PromptSource& prompts,
                                                    const Conversations& conversations);

}  // namespace kv8
