// Markers in text that comes in pieces: how much of it must wait for the next piece.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace kv8 {

/// Bytes at the end of `text` that may turn out to be a run of `gap` characters followed by
/// `marker`, which does not occur in `text`.
inline std::size_t HeldBytes(std::string_view text, std::string_view marker, std::string_view gap) {
  std::size_t partial = std::min(text.size(), marker.size() - 1);
  while (partial > 0 && !text.ends_with(marker.substr(0, partial))) --partial;
  const std::size_t last = text.substr(0, text.size() - partial).find_last_not_of(gap);
  return text.size() - (last == text.npos ? 0 : last + 1);
}

}  // namespace kv8
