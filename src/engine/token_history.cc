#include "engine/token_history.h"

namespace kv8 {

TokenHistory::TokenHistory(const SamplingOptions& options, std::span<const TokenId> prompt)
    : active_(options.repetition_penalty != 1 || options.presence_penalty != 0 ||
              options.frequency_penalty != 0),
      repetition_(options.repetition_penalty),
      presence_(options.presence_penalty),
      frequency_(options.frequency_penalty) {
  if (!active_) return;
  for (const TokenId token : prompt) seen_[token].in_prompt = true;
}

void TokenHistory::Push(TokenId token) {
  if (active_) ++seen_[token].generated;
}

void TokenHistory::Pop(TokenId token) {
  if (active_) --seen_[token].generated;
}

void TokenHistory::Penalize(std::span<float> logits) const {
  for (const auto& [token, seen] : seen_) {
    float& logit = logits[static_cast<std::size_t>(token)];
    if (seen.in_prompt || seen.generated > 0) {
      logit = logit > 0 ? logit / repetition_ : logit * repetition_;
    }
    if (seen.generated > 0) {
      logit -= presence_ + frequency_ * static_cast<float>(seen.generated);
    }
  }
}

}  // namespace kv8
