#include "server/openai/request_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/checked.h"

namespace kv8::openai {
namespace {

/// The value as an integer of 64 bits; nullopt for anything else.
std::optional<std::int64_t> IntegerOf(const OrderedJson& value) {
  if (value.is_number_unsigned()) return CheckedCast<std::int64_t>(value.get<std::uint64_t>());
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return std::nullopt;
}

}  // namespace

Error BadField(std::string path, std::string_view problem, std::string remedy) {
  std::string what = fmt::format("\"{}\" {}", path, problem);
  return Error{Code::kInvalidArgument, std::move(what), std::move(path), std::move(remedy)};
}

std::string ElementPath(std::string_view path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

Result<OrderedJson> ParseBody(std::string_view body) {
  auto parsed = ParseOrderedJson(body, "");
  if (!parsed.ok()) {
    return Error{Code::kInvalidArgument, "the body: " + parsed.error().what, "",
                 "send one JSON object in UTF-8"};
  }
  if (!parsed->is_object()) {
    return Error{Code::kInvalidArgument, "the body must be a JSON object", "", ""};
  }
  return parsed;
}

Result<RequestFields> RequestFields::Of(const OrderedJson& value, std::string path) {
  if (!value.is_object()) return BadField(std::move(path), "must be an object");
  return RequestFields(value, std::move(path));
}

const OrderedJson* RequestFields::Find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string RequestFields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

Error RequestFields::Bad(std::string_view key, std::string_view problem, std::string remedy) const {
  return BadField(PathOf(key), problem, std::move(remedy));
}

Result<std::optional<std::string>> RequestFields::String(std::string_view key) const {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return Bad(key, "must be a string");
  return std::optional(value->get<std::string>());
}

Result<std::string> RequestFields::RequiredString(std::string_view key) const {
  KV8_ASSIGN_OR_RETURN(std::optional<std::string> value, String(key));
  if (!value) return Bad(key, "is missing");
  return *std::move(value);
}

Result<std::optional<std::int64_t>> RequestFields::Integer(std::string_view key, std::int64_t min,
                                                           std::int64_t max) const {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  const auto integer = IntegerOf(*value);
  if (!integer) return Bad(key, "must be an integer");
  if (*integer < min || *integer > max) {
    return Bad(key, fmt::format("is {}; it must be from {} to {}", *integer, min, max));
  }
  return integer;
}

Result<std::optional<double>> RequestFields::Number(std::string_view key) const {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return Bad(key, "must be a number");
  return std::optional(value->get<double>());
}

Result<const OrderedJson*> RequestFields::Array(std::string_view key) const {
  const OrderedJson* value = Find(key);
  if (value != nullptr && !value->is_array()) return Bad(key, "must be an array");
  return value;
}

Result<std::optional<RequestFields>> RequestFields::Object(std::string_view key) const {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return std::optional<RequestFields>();
  KV8_ASSIGN_OR_RETURN(RequestFields fields, Of(*value, PathOf(key)));
  return std::optional(std::move(fields));
}

Result<bool> RequestFields::Bool(std::string_view key, bool otherwise) const {
  const OrderedJson* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) return Bad(key, "must be true or false");
  return value->get<bool>();
}

std::optional<TokenId> TokenIdOf(const OrderedJson& value) {
  const auto integer = IntegerOf(value);
  return integer && *integer >= 0 ? CheckedCast<TokenId>(*integer) : std::nullopt;
}

}  // namespace kv8::openai
