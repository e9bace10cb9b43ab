#include "base/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"

namespace kv8 {
namespace {

constexpr std::string_view kRemedy = "restore the file from its source";

}  // namespace

std::optional<std::uint64_t> AsCount(const Json& value) {
  // Parsed literals are unsigned; values built in memory may be signed.
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
  return value.get<std::uint64_t>();
}

std::optional<TokenId> AsTokenId(const Json& value) {
  const auto count = AsCount(value);
  return count ? CheckedCast<TokenId>(*count) : std::nullopt;
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<JsonFields> JsonFields::Of(const Json& value, std::string_view where,
                                  std::string_view path) {
  if (!value.is_object()) {
    const std::string name = path.empty() ? "the document" : fmt::format("\"{}\"", path);
    return Error{Code::kCorrupt, name + " must be a JSON object", std::string(where),
                 std::string(kRemedy)};
  }
  return JsonFields(value, where, path);
}

std::string JsonFields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

Error JsonFields::Bad(std::string_view key, std::string_view problem) const {
  return Error{Code::kCorrupt, fmt::format("\"{}\" {}", PathOf(key), problem), where_,
               std::string(kRemedy)};
}

Result<const Json*> JsonFields::Find(std::string_view key) const {
  const auto it = object_->find(key);
  if (it == object_->end()) return Bad(key, "is missing");
  return &*it;
}

Result<std::string> JsonFields::String(std::string_view key) const {
  KV8_ASSIGN_OR_RETURN(const Json* value, Find(key));
  if (!value->is_string()) return Bad(key, "must be a string");
  return value->get<std::string>();
}

Result<std::string> JsonFields::Sha256(std::string_view key) const {
  KV8_ASSIGN_OR_RETURN(std::string text, String(key));
  if (!IsSha256Hex(text)) return Bad(key, "must be a SHA-256 of 64 lower-case hex digits");
  return text;
}

Result<bool> JsonFields::Bool(std::string_view key) const {
  KV8_ASSIGN_OR_RETURN(const Json* value, Find(key));
  if (!value->is_boolean()) return Bad(key, "must be true or false");
  return value->get<bool>();
}

Result<std::uint64_t> JsonFields::Count(std::string_view key, std::uint64_t max) const {
  KV8_ASSIGN_OR_RETURN(const Json* value, Find(key));
  const auto count = AsCount(*value);
  if (!count) return Bad(key, "must be a non-negative integer");
  if (*count > max) return Bad(key, fmt::format("is {}; at most {} is possible", *count, max));
  return *count;
}

Result<double> JsonFields::Number(std::string_view key) const {
  KV8_ASSIGN_OR_RETURN(const Json* value, Find(key));
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    return Bad(key, "must be a finite number");
  }
  return value->get<double>();
}

Result<JsonFields> JsonFields::Object(std::string_view key) const {
  KV8_ASSIGN_OR_RETURN(const Json* value, Find(key));
  return Of(*value, where_, PathOf(key));
}

Result<const Json*> JsonFields::Array(std::string_view key) const {
  KV8_ASSIGN_OR_RETURN(const Json* value, Find(key));
  if (!value->is_array()) return Bad(key, "must be an array");
  return value;
}

}  // namespace kv8
