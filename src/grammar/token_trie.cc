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
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].size() > kMaxTokenBytes) tokens_[i].clear();
    if (tokens_[i].empty()) continue;
    std::vector<TokenId>& kind = tokens_[i].size() <= kCommonBytes ? ids : long_tokens_;
    kind.push_back(static_cast<TokenId>(i));
  }
  std::sort(ids.begin(), ids.end(), [this](TokenId a, TokenId b) {
    const int order = Bytes(a).compare(Bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  for (const CharSet& chars : SliceChars()) slices_.emplace_back(chars, ids, tokens_);
  common_ = TrieNodes(std::move(ids), tokens_);
}

}  // namespace kv8
