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

/// A set of JSON types. Numbers are whole ones too.
class JsonTypes {
 public:
  JsonTypes() = default;
  explicit JsonTypes(JsonType type) : types_(static_cast<unsigned>(type)) {
    if (type == JsonType::kNumber) types_ |= static_cast<unsigned>(JsonType::kInteger);
  }
  /// Nothing is said about the type.
  static JsonTypes Unknown() {
    JsonTypes types;
    types.types_ = kUnknown;
    return types;
  }

  void Add(JsonTypes other) { types_ |= other.types_; }
  void Keep(JsonTypes other) { types_ &= other.types_; }
  bool Has(JsonType type) const { return (types_ & static_cast<unsigned>(type)) != 0; }
  bool empty() const { return types_ == 0; }
  bool unknown() const { return types_ == kUnknown; }
  /// Strings only, or nothing is known: any text is a value.
  bool IsText() const { return empty() || unknown() || IsOnly(JsonType::kString); }
  /// Strings are written as they are, without quotes: there is nothing to mistake them for, but for
  /// null, which is a value of its own.
  bool WritesPlainStrings() const {
    JsonTypes others = *this;
    others.types_ &= ~static_cast<unsigned>(JsonType::kNull);
    return IsText() || others.IsOnly(JsonType::kString);
  }

 private:
  static constexpr unsigned kUnknown = 255;  // a bit more than all types

  bool IsOnly(JsonType type) const { return types_ == static_cast<unsigned>(type); }

  unsigned types_ = 0;
};

/// `text` as JSON of one of the types; nullopt when it is of none of them, and then it is a string
/// as it stands. Strings in quotes are read where other values must be told from them. Python's
/// spellings True, False and None count too. Numbers keep their digits.
std::optional<std::string> JsonOfTypes(std::string_view text, JsonTypes types);

/// The tools of a request.
class ToolSchemas {
 public:
  /// As ToolCallParser takes them.
  explicit ToolSchemas(OrderedJson tools) : tools_(std::move(tools)) {}

  bool Has(std::string_view function) const { return Find(function) != nullptr; }
  /// Types that the schema of the argument allows. Schemas are read as far as they say it by
  /// `type`, `enum`, `const`, combinations and references; keywords that are about one type name
  /// it.
  JsonTypes TypesOf(std::string_view function, std::string_view argument) const;
  /// Whether the function declares an argument of this name, or any by declaring none.
  bool Takes(std::string_view function, std::string_view argument) const;

 private:
  /// Null when it is not there.
  const OrderedJson* Find(std::string_view function) const;
  const OrderedJson* ParametersOf(std::string_view function) const;

  OrderedJson tools_;
};

}  // namespace kv8
