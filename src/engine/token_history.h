// Which tokens a sequence has seen, for penalties.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "kv8/request.h"

namespace kv8 {

/// Counts only when the options have a penalty; costs nothing otherwise.
class TokenHistory {
 public:
  TokenHistory() = default;
  TokenHistory(const SamplingOptions& options, std::span<const TokenId> prompt);

  /// A generated token.
  void Push(TokenId token);
  /// Takes the last Push of `token` back.
  void Pop(TokenId token);

  /// Repetition: a positive logit is divided by it and a negative one multiplied, for every token
  /// of prompt or output. Presence and frequency: subtracted, for tokens of the output.
  void Penalize(std::span<float> logits) const;

 private:
  struct Seen {
    bool in_prompt = false;
    std::int32_t generated = 0;
  };

  bool active_ = false;
  float repetition_ = 1;
  float presence_ = 0;
  float frequency_ = 0;
  std::unordered_map<TokenId, Seen> seen_;
};

}  // namespace kv8
