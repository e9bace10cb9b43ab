#include "grammar/trie_nodes.h"

#include <string_view>
#include <utility>

namespace kv8 {

TrieNodes::TrieNodes(std::vector<TokenId> ids, const std::vector<std::string>& tokens)
    : ids_(std::move(ids)) {
  std::vector<std::uint32_t> path = {0};  // nodes from the root to the last token
  nodes_.push_back({});
  std::string_view last;
  for (std::uint32_t i = 0; i < ids_.size(); ++i) {
    const std::string_view bytes = tokens[static_cast<std::size_t>(ids_[i])];
    std::size_t shared = 0;
    while (shared < last.size() && shared < bytes.size() && last[shared] == bytes[shared]) ++shared;
    const auto end = static_cast<std::uint32_t>(nodes_.size());
    for (; path.size() > shared + 1; path.pop_back()) nodes_[path.back()].end = end;
    for (std::size_t at = shared; at < bytes.size(); ++at) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({.first = i,
                        .depth = static_cast<std::uint16_t>(at + 1),
                        .byte = static_cast<std::uint8_t>(bytes[at])});
    }
    last = bytes;
  }
  const auto end = static_cast<std::uint32_t>(nodes_.size());
  for (const std::uint32_t node : path) nodes_[node].end = end;
  nodes_.push_back({.first = static_cast<std::uint32_t>(ids_.size())});
}

}  // namespace kv8
