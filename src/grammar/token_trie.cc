#include "grammar/token_trie.h"

#include <algorithm>
#include <utility>

namespace kv8 {

TokenTrie TokenTrie::Of(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens(tokenizer.vocab_size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const bool added = tokenizer.IdOf(tokenizer.Spelling(id)) == id;
    if (!added && !tokenizer.IsSpecial(id)) tokens[i] = tokenizer.Bytes(id);
  }
  return TokenTrie(std::move(tokens));
}

TokenTrie::TokenTrie(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].size() > kMaxTokenBytes) tokens_[i].clear();
    if (tokens_[i].empty()) continue;
    std::vector<TokenId>& kind = tokens_[i].size() <= kCommonBytes ? ids_ : long_tokens_;
    kind.push_back(static_cast<TokenId>(i));
  }
  std::sort(ids_.begin(), ids_.end(), [this](TokenId a, TokenId b) {
    const int order = Bytes(a).compare(Bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<std::uint32_t> path = {0};  // nodes from the root to the last token
  nodes_.push_back({});
  std::string_view last;
  for (std::uint32_t i = 0; i < ids_.size(); ++i) {
    const std::string_view bytes = Bytes(ids_[i]);
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
