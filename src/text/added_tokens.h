// Tokens that are found in the raw text, before normalization and splitting.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/marked_text.h"
#include "kv8/types.h"
#include "text/flat_map.h"

namespace kv8 {

/// One entry of tokenizer.json's `added_tokens`.
struct AddedToken {
  TokenId id;
  std::string content;
  bool special;  // control tokens, which decoding may leave out
};

/// Longest content, in bytes. Bounds the work per byte of text.
inline constexpr std::size_t kMaxAddedTokenBytes = 256;

/// Finds the leftmost, then longest, added token: a trie over bytes.
class AddedTokens {
 public:
  struct Match {
    std::size_t start;  // offsets into the text
    std::size_t end;
    TokenId id;
  };

  AddedTokens() = default;
  explicit AddedTokens(std::span<const AddedToken> tokens);

  /// The first match at or after `from`. With `authors`, whose text it is, a control token counts
  /// only where the template wrote all of it, and any other where no user or tool wrote of it.
  std::optional<Match> Find(std::string_view text, std::size_t from,
                            const MarkedText* authors = nullptr) const;

  /// Id of the token with exactly this content.
  std::optional<TokenId> IdOf(std::string_view content) const;

 private:
  struct Node {
    std::uint32_t index;
    TokenId id;  // of the token that ends here, or kNoToken
    bool special = false;
  };
  static constexpr TokenId kNoToken = -1;
  static constexpr std::uint32_t kRoot = 0;

  const Node* Child(std::uint32_t parent, char byte) const;
  std::optional<Match> MatchAt(std::string_view text, std::size_t start,
                               const MarkedText* authors) const;

  FlatMap<Node> edges_;
  std::array<bool, 256> starts_{};  // bytes that some token starts with
};

}  // namespace kv8
