// `text % values` and `text.format(...)`.
#pragma once

#include "jinja/arguments.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace kv8::jinja {

/// `text % values`: a tuple's items, a dict's by name, or one value.
/// Errors: a malformed directive, too few or too many values, one of the wrong type.
Result<Value> FormatPercent(const Value& text, const Value& values);

/// `text.format(...)`. Fields are `{}`, `{0}` or `{name}`, with attributes, items, `!r`, `!s` and a
/// format specification, which may hold fields itself.
Result<Value> FormatBraces(Runtime& runtime, const Value& text, const Arguments& arguments);

}  // namespace kv8::jinja
