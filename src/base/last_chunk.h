// A trait of Boost.Beast that everyone who feeds its parser piece by piece must know.
#pragma once

#include <cstddef>
#include <string_view>

namespace kv8 {

/// Whether `bytes`, where a chunk would begin, are less than "0", CRLF, CRLF and could become that:
/// the parser counts on seeing all of it once it has met the last chunk.
inline bool BeginsLastChunk(std::string_view bytes) {
  constexpr std::size_t kShortestEnd = 5;
  return bytes.starts_with('0') && bytes.size() < kShortestEnd;
}

}  // namespace kv8
