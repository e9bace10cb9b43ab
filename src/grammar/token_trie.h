// The tokens of a vocabulary that stand for text, in the order of their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/types.h"
#include "text/tokenizer.h"

namespace kv8 {

/// The common tokens, up to kCommonBytes, are a trie in preorder: the nodes of a subtree stand
/// together, so that leaving one out is one jump. The others are few. Immutable; built once for
/// each vocabulary.
class TokenTrie {
 public:
  static constexpr std::uint32_t kCommonBytes = 32;
  /// Longest token in bytes; longer ones are left out, like empty ones.
  static constexpr std::size_t kMaxTokenBytes = 512;

  struct Node {
    std::uint32_t end = 0;    // of the subtree
    std::uint32_t first = 0;  // into ids(): this node's tokens end where the next node's begin
    std::uint16_t depth = 0;  // bytes from the root
    std::uint8_t byte = 0;
  };

  /// All tokens but the added ones, which are control tokens of a chat and not its text.
  static TokenTrie Of(const Tokenizer& tokenizer);
  /// tokens[i] are the bytes of id i; empty for none.
  explicit TokenTrie(std::vector<std::string> tokens);

  /// nodes()[0] is the root.
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  /// Tokens that end at a node; several may have the same bytes.
  std::span<const TokenId> TokensAt(std::uint32_t node) const {
    const std::uint32_t first = nodes_[node].first;
    return std::span(ids_).subspan(first, nodes_[node + 1].first - first);
  }

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
  std::vector<TokenId> ids_;  // of common tokens, by bytes
  std::vector<Node> nodes_;   // and one past the end
  std::vector<TokenId> long_tokens_;
};

}  // namespace kv8
