#include "text/added_tokens.h"

#include <cstdint>

namespace kv8 {
namespace {

std::uint64_t EdgeKey(std::uint32_t parent, char byte) {
  return std::uint64_t{parent} << 8 | static_cast<std::uint8_t>(byte);
}

}  // namespace

AddedTokens::AddedTokens(std::span<const AddedToken> tokens) {
  std::size_t bytes = 0;
  for (const AddedToken& token : tokens) bytes += token.content.size();
  edges_ = FlatMap<Node>(bytes);
  std::uint32_t nodes = 1;
  for (const AddedToken& token : tokens) {
    starts_[static_cast<std::uint8_t>(token.content.front())] = true;
    std::uint32_t parent = kRoot;
    for (std::size_t i = 0; i < token.content.size(); ++i) {
      const std::uint64_t key = EdgeKey(parent, token.content[i]);
      if (edges_.Insert(key, {nodes, kNoToken})) ++nodes;
      Node& child = *edges_.Find(key);
      if (i + 1 == token.content.size()) {
        child.id = token.id;
        child.special = token.special;
      }
      parent = child.index;
    }
  }
}

const AddedTokens::Node* AddedTokens::Child(std::uint32_t parent, char byte) const {
  return edges_.Find(EdgeKey(parent, byte));
}

std::optional<AddedTokens::Match> AddedTokens::Find(std::string_view text, std::size_t from,
                                                    const MarkedText* authors) const {
  for (std::size_t start = from; start < text.size(); ++start) {
    if (!starts_[static_cast<std::uint8_t>(text[start])]) continue;
    if (const auto match = MatchAt(text, start, authors)) return match;
  }
  return std::nullopt;
}

std::optional<AddedTokens::Match> AddedTokens::MatchAt(std::string_view text, std::size_t start,
                                                       const MarkedText* authors) const {
  std::optional<Match> longest;
  std::uint32_t parent = kRoot;
  for (std::size_t at = start; at < text.size(); ++at) {
    const Node* child = Child(parent, text[at]);
    if (child == nullptr) break;
    const Author least = child->special ? Author::kTemplate : Author::kAssistant;
    const bool counts = authors == nullptr || authors->Trusted(start, at + 1, least);
    if (child->id != kNoToken && counts) longest = Match{start, at + 1, child->id};
    parent = child->index;
  }
  return longest;
}

std::optional<TokenId> AddedTokens::IdOf(std::string_view content) const {
  const auto match = MatchAt(content, 0, nullptr);
  if (!match || match->end != content.size()) return std::nullopt;
  return match->id;
}

}  // namespace kv8
