// Words that must not occur in a text, found byte by byte.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace kv8 {

class WordGuard {
 public:
  /// How much of a word has been read; 0: nothing.
  using State = std::uint32_t;
  static constexpr State kFound = UINT32_MAX;

  /// All words begin with `first`, which they have nowhere else, so that only it begins anew.
  WordGuard(char first, const std::vector<std::string_view>& words);

  /// After `byte`; kFound at the end of a word.
  State Next(State state, std::uint8_t byte) const;

 private:
  std::uint8_t first_;
  std::map<std::pair<State, std::uint8_t>, State> next_;
};

}  // namespace kv8
