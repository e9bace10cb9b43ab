// Values and JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ordered_json.h"
#include "jinja/value.h"

namespace kv8::jinja {

/// Errors: strings that are not UTF-8, integers beyond 64 bits, too much or too deep.
Result<Value> FromJson(const OrderedJson& json);

/// Options of json.dumps.
struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level; absent: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

/// json.dumps. Errors: values that JSON does not have, such as undefined ones.
Result<std::string> ToJson(const Value& value, const JsonStyle& style);

}  // namespace kv8::jinja
