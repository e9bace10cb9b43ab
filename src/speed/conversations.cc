#include "speed/conversations.h"

#include <utility>

namespace kv8 {
namespace {

constexpr auto kNever = [](std::span<const TimedOutput>) { return false; };

/// Says one turn; `history` grows by it and its answer.
Result<void> RunTurn(SpeedTarget& target, std::vector<TokenId> said, std::int64_t output,
                     std::vector<TokenId>& history, TurnTimes& times) {
  history.insert(history.end(), said.begin(), said.end());
  const TimedRequest request{.prompt = history, .max_tokens = output};
  KV8_ASSIGN_OR_RETURN(const auto outputs, target.Run({&request, 1}, kNever));
  const TimedOutput& answer = outputs.front();
  times.first_token_seconds.push_back(answer.token_seconds.front());
  times.prompt_tokens += std::ssize(history);
  times.cached_tokens += answer.cached_tokens;
  history.insert(history.end(), answer.ids.begin(), answer.ids.end());
  return {};
}

}  // namespace

Result<std::vector<TurnTimes>> MeasureConversations(SpeedTarget& target, PromptSource& prompts,
                                                    const Conversations& conversations) {
  std::vector<std::vector<TokenId>> histories(static_cast<std::size_t>(conversations.count));
  std::vector<TurnTimes> turns(static_cast<std::size_t>(conversations.turns));
  for (TurnTimes& turn : turns) {
    for (std::vector<TokenId>& history : histories) {
      KV8_RETURN_IF_ERROR(RunTurn(target, prompts.Next(conversations.turn_tokens),
                                  conversations.output, history, turn));
    }
  }
  return turns;
}

}  // namespace kv8
