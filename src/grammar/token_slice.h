// Tokens that are made of some characters only, which many places allow all at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "grammar/char_set.h"
#include "grammar/trie_nodes.h"
#include "kv8/types.h"

namespace kv8 {

/// The tokens of one to kMaxChars characters of a set, and a trie of all others. In a place that
/// treats all these characters alike, inside a string say, the slice is one step, and only the
/// others are walked.
class TokenSlice {
 public:
  static constexpr std::size_t kMaxChars = 16;

  /// `ids` are the common tokens by the order of their bytes.
  TokenSlice(const CharSet& chars, std::span<const TokenId> ids,
             const std::vector<std::string>& tokens);

  /// The encodings of the characters.
  std::span<const ByteSequence> chars() const { return chars_; }
  /// A mask of the tokens with at most so many characters.
  std::span<const std::uint64_t> UpTo(std::size_t count) const { return masks_[count]; }
  const TrieNodes& others() const { return others_; }

 private:
  std::vector<ByteSequence> chars_;
  std::array<std::vector<std::uint64_t>, kMaxChars + 1> masks_;
  TrieNodes others_;
};

/// The slices that are made of a vocabulary: what JSON strings hold without an escape, and letters
/// and digits of ASCII.
std::vector<CharSet> SliceChars();

}  // namespace kv8
