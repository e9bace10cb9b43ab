#include "grammar/word_guard.h"

namespace kv8 {

WordGuard::WordGuard(char first, const std::vector<std::string_view>& words)
    : first_(static_cast<std::uint8_t>(first)) {
  State states = 1;
  for (const std::string_view word : words) {
    State state = 0;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      const auto [step, is_new] =
          next_.try_emplace({state, static_cast<std::uint8_t>(word[i])}, states);
      if (is_new) ++states;
      state = step->second;
    }
    next_[{state, static_cast<std::uint8_t>(word.back())}] = kFound;
  }
}

WordGuard::State WordGuard::Next(State state, std::uint8_t byte) const {
  if (const auto step = next_.find({state, byte}); step != next_.end()) return step->second;
  if (byte != first_) return 0;
  return next_.at({0, first_});
}

}  // namespace kv8
