#include "grammar/token_slice.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "kv8/constraint.h"

namespace kv8 {
namespace {

/// Bytes of the character at the start of `text`; 0 when it is none of `chars`.
std::size_t CharLength(std::string_view text, std::span<const ByteSequence> chars) {
  for (const ByteSequence& sequence : chars) {
    if (sequence.size() > text.size()) continue;
    std::size_t fits = 0;
    while (fits < sequence.size()) {
      const auto byte = static_cast<std::uint8_t>(text[fits]);
      if (byte < sequence[fits].first || byte > sequence[fits].last) break;
      ++fits;
    }
    if (fits == sequence.size()) return fits;
  }
  return 0;
}

/// 0 when some character is none of `chars`.
std::size_t CharCount(std::string_view text, std::span<const ByteSequence> chars) {
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t length = CharLength(text, chars);
    if (length == 0) return 0;
    text.remove_prefix(length);
    ++count;
  }
  return count;
}

}  // namespace

TokenSlice::TokenSlice(const CharSet& chars, std::span<const TokenId> ids,
                       const std::vector<std::string>& tokens)
    : chars_(Utf8Sequences(chars)) {
  for (auto& mask : masks_) mask.resize(MaskWords(static_cast<std::int64_t>(tokens.size())));
  std::vector<TokenId> others;
  for (const TokenId id : ids) {
    const auto at = static_cast<std::size_t>(id);
    const std::size_t count = CharCount(tokens[at], chars_);
    if (count == 0 || count > kMaxChars) {
      others.push_back(id);
      continue;
    }
    for (std::size_t n = count; n <= kMaxChars; ++n) {
      masks_[n][at / 64] |= std::uint64_t{1} << at % 64;
    }
  }
  others_ = TrieNodes(std::move(others), tokens);
}

std::vector<CharSet> SliceChars() {
  const CharSet unescaped = CharSet::All().Without(JsonEscaped());
  return {unescaped, CharSet().Add('0', '9').Add('A', 'Z').Add('a', 'z')};
}

}  // namespace kv8
