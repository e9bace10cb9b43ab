// Structured output: constraints for one model's vocabulary, from schemas and expressions.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "base/ordered_json.h"
#include "grammar/call_grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_trie.h"
#include "kv8/constraint.h"
#include "kv8/error.h"
#include "text/tokenizer.h"

namespace kv8 {

/// Makes what Request::constraint takes. Thread-safe. The most recent grammars are kept, with what
/// was found out about them, so a schema that comes again costs nothing.
class Constraints {
 public:
  using Constraint = std::shared_ptr<const TokenConstraint>;

  /// `tokenizer` is needed during the call only.
  explicit Constraints(const Tokenizer& tokenizer);
  explicit Constraints(TokenTrie trie);

  /// Texts that match as a whole; see ParseRegex. Errors: those of CompileRegex.
  Result<Constraint> OfRegex(std::string_view pattern);
  /// JSON that satisfies the schema, itself a JSON text. Errors: those of ParseOrderedJson and
  /// CompileJsonSchema; kResourceExhausted above kMaxSchemaBytes.
  Result<Constraint> OfJsonSchema(std::string_view schema);
  /// Any JSON object.
  Result<Constraint> OfJsonObject();
  /// What stands between the tags of a call; see CompileCalls, whose errors it has, and
  /// kResourceExhausted above kMaxSchemaBytes.
  Result<Constraint> OfCalls(const OrderedJson& tools, std::string_view name, CallSchemas schemas);

  /// `inner` after the first token `marker`, and anything before it.
  Constraint After(TokenId marker, const Constraint& inner) const;

 private:
  static constexpr std::size_t kMaxKept = 32;

  std::shared_ptr<Matcher> Find(const std::string& key);
  template <class Compile>
  Result<Constraint> Make(std::string key, const Compile& compile);

  const std::shared_ptr<const TokenTrie> trie_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<Matcher>>> kept_;  // most recent first
};

}  // namespace kv8
