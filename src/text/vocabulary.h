// The tokens of a tokenizer.json while it is read: which spelling has which id.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"
#include "text/json_rules.h"

namespace kv8 {

/// `value` as a token id. Errors: kCorrupt when it is not an integer from 0 to 2^31 - 1.
Result<TokenId> ReadTokenId(simdjson::dom::element value, const JsonPlace& place);

/// Spellings point into the JSON document, which must outlive this.
class Vocabulary {
 public:
  explicit Vocabulary(std::string_view file) : file_(file) {}

  /// Adds `model.vocab`, an object from spellings to ids.
  /// Errors: kCorrupt for another type, a bad id, or a spelling that is empty or given twice.
  Result<void> AddVocab(simdjson::dom::element value, const JsonPlace& place);

  /// Adds an added token: a new one, or one of the vocabulary's with the same id.
  /// Errors: kCorrupt for another id, empty content, or content that was added before.
  Result<void> AddAddedToken(std::string_view content, TokenId id, const JsonPlace& place);

  std::optional<TokenId> Find(std::string_view spelling) const;

  /// All spellings, by id. Errors: kCorrupt unless the ids are 0 to n-1, each once.
  Result<std::vector<std::string>> TokensById() const;

 private:
  struct Entry {
    TokenId id;
    bool in_vocab;
    bool added;
  };

  std::string_view file_;
  std::unordered_map<std::string_view, Entry> entries_;
};

}  // namespace kv8
