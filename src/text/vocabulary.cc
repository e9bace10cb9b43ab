#include "text/vocabulary.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "base/utf8.h"

namespace kv8 {

namespace {

bool IsTokenId(std::int64_t number) {
  return 0 <= number && std::in_range<TokenId>(number);
}

}  // namespace

Result<TokenId> ReadTokenId(simdjson::dom::element value, const JsonPlace& place) {
  KV8_ASSIGN_OR_RETURN(const auto number, ReadJson<std::int64_t>(value, place));
  if (IsTokenId(number)) return static_cast<TokenId>(number);
  return place.Corrupt(fmt::format("is {}; a token id is 0 to 2^31 - 1", number));
}

Result<void> Vocabulary::AddVocab(simdjson::dom::element value, const JsonPlace& place) {
  KV8_ASSIGN_OR_RETURN(const auto object, ReadJson<simdjson::dom::object>(value, place));
  entries_.reserve(object.size());
  for (const auto field : object) {
    std::int64_t number;  // the usual case, without building a JsonPlace for each token
    if (field.value.get(number) != simdjson::SUCCESS || !IsTokenId(number)) {
      return ReadTokenId(field.value, place.Field(field.key)).error();
    }
    if (field.key.empty() || FirstInvalidUtf8(field.key)) {
      return place.Field(field.key).Corrupt("is empty or not valid UTF-8");
    }
    const Entry entry{static_cast<TokenId>(number), /*in_vocab=*/true, /*added=*/false};
    if (!entries_.emplace(field.key, entry).second) {
      return place.Field(field.key).Corrupt("is given twice");
    }
  }
  return {};
}

Result<void> Vocabulary::AddAddedToken(std::string_view content, TokenId id,
                                       const JsonPlace& place) {
  if (content.empty() || FirstInvalidUtf8(content)) {
    return place.Field("content").Corrupt("is empty or not valid UTF-8");
  }
  const Entry entry{id, /*in_vocab=*/false, /*added=*/true};
  const auto [it, is_new] = entries_.emplace(content, entry);
  if (is_new) return {};
  Entry& known = it->second;
  if (known.added) return place.Field("content").Corrupt("is that of an earlier added token");
  if (known.id != id) {
    return place.Field("id").Corrupt(
        fmt::format("is {}; model.vocab gives \"{}\" id {}", id, JsonExcerpt(content), known.id));
  }
  known.added = true;
  return {};
}

std::optional<TokenId> Vocabulary::Find(std::string_view spelling) const {
  const auto it = entries_.find(spelling);
  if (it == entries_.end()) return std::nullopt;
  return it->second.id;
}

Result<std::vector<std::string>> Vocabulary::TokensById() const {
  std::vector<std::string> tokens(entries_.size());
  for (const auto& [spelling, entry] : entries_) {
    const JsonPlace place{file_, entry.in_vocab ? "model.vocab" : "added_tokens"};
    if (static_cast<std::size_t>(entry.id) >= tokens.size()) {
      return place.Corrupt(fmt::format("\"{}\" has id {}; the ids of {} tokens are 0 to {}",
                                       JsonExcerpt(spelling), entry.id, tokens.size(),
                                       tokens.size() - 1));
    }
    std::string& token = tokens[entry.id];
    if (!token.empty()) {
      return place.Corrupt(fmt::format("\"{}\" and \"{}\" both have id {}", JsonExcerpt(spelling),
                                       JsonExcerpt(token), entry.id));
    }
    token = spelling;
  }
  return tokens;
}

}  // namespace kv8
