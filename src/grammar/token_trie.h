// The tokens of a vocabulary that stand for text, in the order of their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/token_slice.h"
#include "grammar/trie_nodes.h"
#include "kv8/types.h"
#include "text/tokenizer.h"

namespace kv8 {

/// The common tokens, up to kCommonBytes, are a trie, and again one beside each slice. The others
/// are few. Immutable; built once for each vocabulary.
class TokenTrie {
 public:
  static constexpr std::uint32_t kCommonBytes = 32;
  /// Longest token in bytes; longer ones are left out, like empty ones.
  static constexpr std::size_t kMaxTokenBytes = 512;

  /// All tokens but the added ones, which are control tokens of a chat and not its text.
  static TokenTrie Of(const Tokenizer& tokenizer);
  /// tokens[i] are the bytes of id i; empty for none.
  explicit TokenTrie(std::vector<std::string> tokens);

  const TrieNodes& common() const { return common_; }
  /// The widest first.
  std::span<const TokenSlice> slices() const { return slices_; }
  /// Tokens above kCommonBytes.
  std::span<const TokenId> long_tokens() const { return long_tokens_; }

  /// Bytes of a token; empty for ids that stand for no text.
  std::string_view Bytes(TokenId id) const {
    return 0 <= id && static_cast<std::size_t>(id) < tokens_.size()
               ? tokens_[static_cast<std::size_t>(id)]
               : std::string_view();
  }
  std::size_t vocab() const { return tokens_.size(); }

 private:
  std::vector<std::string> tokens_;
  std::vector<TokenId> long_tokens_;
  TrieNodes common_;
  std::vector<TokenSlice> slices_;
};

}  // namespace kv8
