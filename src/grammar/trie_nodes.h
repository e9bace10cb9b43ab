// A trie of tokens by their bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv8/types.h"

namespace kv8 {

/// In preorder: the nodes of a subtree stand together, so that leaving one out is one jump.
class TrieNodes {
 public:
  struct Node {
    std::uint32_t end = 0;    // of the subtree
    std::uint32_t first = 0;  // into the ids: this node's tokens end where the next node's begin
    std::uint16_t depth = 0;  // bytes from the root
    std::uint8_t byte = 0;
  };

  TrieNodes() : TrieNodes({}, {}) {}
  /// Of some of the tokens: ids by the order of their bytes, none of them empty.
  TrieNodes(std::vector<TokenId> ids, const std::vector<std::string>& tokens);

  /// nodes()[0] is the root.
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  /// Tokens that end at a node; several may have the same bytes.
  std::span<const TokenId> TokensAt(std::uint32_t node) const {
    const std::uint32_t first = nodes_[node].first;
    return std::span(ids_).subspan(first, nodes_[node + 1].first - first);
  }

 private:
  std::vector<TokenId> ids_;
  std::vector<Node> nodes_;  // and one past the end
};

}  // namespace kv8
