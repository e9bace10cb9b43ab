// Typed access to the fields of a request's body.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8::openai {

/// The body as a JSON object. Errors: kInvalidArgument.
Result<OrderedJson> ParseBody(std::string_view body);

/// kInvalidArgument about one field: `where` is its path, such as "messages[0].content".
Error BadField(std::string path, std::string_view problem, std::string remedy = "");

/// "[0]" after a path.
std::string ElementPath(std::string_view path, std::size_t index);

/// A view of a JSON object that must outlive it. As clients send null for what they do not set, a
/// field that is null counts as absent. Every getter fails with BadField when the field has another
/// type; booleans are never numbers, and numbers with a fraction or an exponent never integers.
class RequestFields {
 public:
  /// `path` is the object's own place in the body, empty for the body.
  static Result<RequestFields> Of(const OrderedJson& value, std::string path = "");

  /// nullptr when the field is absent.
  const OrderedJson* Find(std::string_view key) const;

  Result<std::optional<std::string>> String(std::string_view key) const;
  Result<std::optional<std::int64_t>> Integer(std::string_view key, std::int64_t min,
                                              std::int64_t max) const;
  /// Finite.
  Result<std::optional<double>> Number(std::string_view key) const;
  /// nullptr when the field is absent.
  Result<const OrderedJson*> Array(std::string_view key) const;
  Result<std::optional<RequestFields>> Object(std::string_view key) const;
  Result<bool> Bool(std::string_view key, bool otherwise) const;

  /// String, when the field must be there.
  Result<std::string> RequiredString(std::string_view key) const;

  std::string PathOf(std::string_view key) const;
  Error Bad(std::string_view key, std::string_view problem, std::string remedy = "") const;
  const OrderedJson& json() const { return *object_; }

 private:
  RequestFields(const OrderedJson& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const OrderedJson* object_;
  std::string path_;
};

/// The value as a token id; nullopt for anything else.
std::optional<TokenId> TokenIdOf(const OrderedJson& value);

}  // namespace kv8::openai
