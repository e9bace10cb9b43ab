#include "grammar/constraints.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ordered_json.h"
#include "grammar/deferred_constraint.h"
#include "grammar/json_schema.h"

namespace kv8 {
namespace {

Result<void> CheckSize(std::string_view schema, std::string_view where) {
  if (schema.size() <= kMaxSchemaBytes) return {};
  return Error{Code::kResourceExhausted,
               fmt::format("{} bytes; at most {} are read", schema.size(), kMaxSchemaBytes),
               std::string(where), "make it smaller"};
}

}  // namespace

Constraints::Constraints(const Tokenizer& tokenizer) : Constraints(TokenTrie::Of(tokenizer)) {}

Constraints::Constraints(TokenTrie trie)
    : trie_(std::make_shared<const TokenTrie>(std::move(trie))) {}

std::shared_ptr<Matcher> Constraints::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return kept_.front().second;
}

/// The start of a kept grammar, or of one that `compile` makes. Compiles outside of the lock.
template <class Compile>
Result<Constraints::Constraint> Constraints::Make(std::string key, const Compile& compile) {
  std::shared_ptr<Matcher> matcher = Find(key);
  if (!matcher) {
    KV8_ASSIGN_OR_RETURN(Program program, compile());
    KV8_ASSIGN_OR_RETURN(matcher, Matcher::Make(std::move(program), trie_));
    const std::lock_guard lock(mutex_);
    kept_.emplace_front(std::move(key), matcher);
    if (kept_.size() > kMaxKept) kept_.pop_back();
  }
  return Constraint(matcher->Start());
}

Result<Constraints::Constraint> Constraints::OfRegex(std::string_view pattern) {
  return Make("regex " + std::string(pattern), [&] { return CompileRegex(pattern); });
}

Result<Constraints::Constraint> Constraints::OfJsonSchema(std::string_view schema) {
  constexpr std::string_view kWhere = "JSON schema";
  KV8_RETURN_IF_ERROR(CheckSize(schema, kWhere));
  return Make("schema " + std::string(schema), [&]() -> Result<Program> {
    KV8_ASSIGN_OR_RETURN(const OrderedJson json, ParseOrderedJson(schema, kWhere));
    return CompileJsonSchema(json);
  });
}

Result<Constraints::Constraint> Constraints::OfCalls(const OrderedJson& tools,
                                                     std::string_view name, CallSchemas schemas) {
  std::string key = OrderedText(tools);
  KV8_RETURN_IF_ERROR(CheckSize(key, "tools"));
  key = fmt::format("calls {} {} {}", schemas == CallSchemas::kStrict, name, key);
  return Make(std::move(key), [&] { return CompileCalls(tools, name, schemas); });
}

Result<Constraints::Constraint> Constraints::OfJsonObject() {
  return Make("object", [] { return CompileJsonObject(); });
}

Constraints::Constraint Constraints::After(TokenId marker, const Constraint& inner) const {
  return std::make_shared<DeferredConstraint>(marker, static_cast<std::int64_t>(trie_->vocab()),
                                              inner->Clone());
}

}  // namespace kv8
