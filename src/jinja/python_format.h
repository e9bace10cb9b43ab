// `text % values` and `text.format(...)`.
#pragma once

#include <string_view>

#include "jinja/arguments.h"
#include "jinja/value.h"

namespace kv8::jinja {

/// `text % values`: a tuple's items, a dict's by name, or one value.
/// Errors: a malformed directive, too few or too many values, one of the wrong type.
Result<Value> FormatPercent(std::string_view text, const Value& values);

/// `text.format(...)`. Fields are `{}`, `{0}` or `{name}`, with `!r`, `!s` and a format
/// specification; attributes and items of fields are not supported.
Result<Value> FormatBraces(std::string_view text, const Arguments& arguments);

}  // namespace kv8::jinja
