// What the JSON schemas of a request's tools say about the types of arguments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ordered_json.h"

namespace kv8 {

/// A set of JSON types.
class JsonTypes {
 public:
  enum Type : unsigned {
    kString = 1,
    kInteger = 2,
    kNumber = 4,
    kBoolean = 8,
    kObject = 16,
    kArray = 32,
    kNull = 64,
  };

  JsonTypes() = default;
  explicit JsonTypes(unsigned types) : types_(types) {}

  void Add(JsonTypes other) { types_ |= other.types_; }
  bool Has(Type type) const { return (types_ & type) != 0; }
  bool empty() const { return types_ == 0; }
  /// Nothing but text, or nothing known.
  bool IsText() const { return types_ == 0 || types_ == kString; }

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
