// Typed, named access to a large JSON document: every refusal says which file and which field.
#pragma once

#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"

namespace kv8 {

/// Where in which file we are.
struct JsonPlace {
  std::string_view file;
  std::string field;  // "model.merges[3]"; empty for the document

  JsonPlace Field(std::string_view name) const;
  JsonPlace Item(std::size_t index) const;

  Error Corrupt(std::string what) const;
  Error Unsupported(std::string what) const;
};

/// What an object may hold. Fields not named by a rule are refused.
struct FieldRule {
  enum Presence { kRequired, kOptional };
  std::string_view name;
  Presence presence;
  std::vector<std::string_view> values;  // accepted ones, as minified JSON; empty: any
};

/// `value` for an error message: short, and on one line.
std::string JsonExcerpt(std::string_view value);
std::string JsonExcerpt(simdjson::dom::element value);

template <class T>
constexpr std::string_view JsonTypeName();
template <>
constexpr std::string_view JsonTypeName<std::string_view>() {
  return "a string";
}
template <>
constexpr std::string_view JsonTypeName<std::int64_t>() {
  return "an integer";
}
template <>
constexpr std::string_view JsonTypeName<bool>() {
  return "true or false";
}
template <>
constexpr std::string_view JsonTypeName<simdjson::dom::array>() {
  return "an array";
}
template <>
constexpr std::string_view JsonTypeName<simdjson::dom::object>() {
  return "an object";
}

/// `value` as T, one of the types above. Errors: kCorrupt when it is of another type.
template <class T>
Result<T> ReadJson(simdjson::dom::element value, const JsonPlace& place) {
  T out;
  if (value.get(out) == simdjson::SUCCESS) return out;
  return place.Corrupt(fmt::format("is {}; must be {}", JsonExcerpt(value), JsonTypeName<T>()));
}

/// `value` as an object whose fields satisfy `rules`.
/// Errors: kCorrupt (not an object, a field missing or given twice), kUnsupported (a field without
/// a rule, a value that is not accepted).
Result<simdjson::dom::object> ReadFields(simdjson::dom::element value, const JsonPlace& place,
                                         std::initializer_list<FieldRule> rules);

}  // namespace kv8
