// What the JSON schemas of a request's tools say about the types of arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ordered_json.h"

namespace kv8 {

enum class JsonType : unsigned {
  kString = 1,
  kInteger = 2,
  kNumber = 4,
  kBoolean = 8,
  kObject = 16,
  kArray = 32,
  kNull = 64,
};

/// A set of JSON types.
class JsonTypes {
 public:
  JsonTypes() = default;
  explicit JsonTypes(JsonType type) : types_(static_cast<unsigned>(type)) {}

  void Add(JsonTypes other) { types_ |= other.types_; }
  bool Has(JsonType type) const { return (types_ & static_cast<unsigned>(type)) != 0; }
  bool empty() const { return types_ == 0; }
  /// Nothing but text, or nothing known.
  bool IsText() const { return empty() || types_ == static_cast<unsigned>(JsonType::kString); }

 private:
  unsigned types_ = 0;
};

/// `text` as JSON of one of the types other than string; nullopt when it is of none of them.
/// Python's spellings True, False and None count too. Numbers keep their digits.
std::optional<std::string> JsonOfTypes(std::string_view text, JsonTypes types);

/// The tools of a request.
class ToolSchemas {
 public:
  /// As ToolCallParser takes them.
  explicit ToolSchemas(OrderedJson tools) : tools_(std::move(tools)) {}

  bool Has(std::string_view function) const { return Find(function) != nullptr; }
  /// Types that the schema of the argument allows; empty when it says nothing about them.
  JsonTypes TypesOf(std::string_view function, std::string_view argument) const;

 private:
  const OrderedJson* Find(std::string_view function) const;

  OrderedJson tools_;
};

}  // namespace kv8
