// Texts of a compiled grammar: is this one of them, and what might one look like?
#pragma once

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/machine.h"

namespace kv8::test {

inline bool Matches(Machine& machine, std::string_view text) {
  return machine.complete(machine.Run(machine.start(), text));
}

/// A random text, byte by byte; nullopt when it gets long. After some bytes it closes what it can.
inline std::optional<std::string> RandomText(Machine& machine, std::mt19937& random) {
  constexpr std::size_t kMaxBytes = 600;
  constexpr std::size_t kCloseFrom = 60;
  std::string text;
  StateId state = machine.start();
  while (text.size() < kMaxBytes) {
    if (machine.finished(state)) return text;
    if (machine.complete(state) && random() % 4 == 0) return text;
    std::vector<std::uint8_t> allowed;
    bool closed = false;
    for (int byte = 0; byte < 256; ++byte) {
      if (machine.Step(state, static_cast<std::uint8_t>(byte)) == kDeadState) continue;
      allowed.push_back(static_cast<std::uint8_t>(byte));
      const bool closer = byte == '"' || byte == ']' || byte == '}';
      if (!closer || closed || (text.size() < kCloseFrom && random() % 3 != 0)) continue;
      allowed = {static_cast<std::uint8_t>(byte)};
      closed = true;
      break;
    }
    if (allowed.empty()) return std::nullopt;  // a state that nothing leaves: a defect
    const std::uint8_t byte = allowed[random() % allowed.size()];
    text.push_back(static_cast<char>(byte));
    state = machine.Step(state, byte);
  }
  return std::nullopt;
}

}  // namespace kv8::test
