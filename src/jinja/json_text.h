// Values and JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "jinja/value.h"

namespace kv8::jinja {

/// Its texts and keys are those of `author`. Errors: strings that are not UTF-8, too much or too
/// deep.
Result<Value> FromJson(const OrderedJson& json, Author author = Author::kOther);

/// Options of json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; absent: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

/// json.dumps. Errors: values that JSON does not have, such as undefined ones.
Result<MarkedText> ToJson(const Value& value, const JsonStyle& style);

}  // namespace kv8::jinja
