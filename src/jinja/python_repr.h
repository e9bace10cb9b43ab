// str() and repr(), as Python prints values.
#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

namespace kv8::jinja {

/// What `{{ value }}` prints.
MarkedText MarkedStr(const Value& value);
void AppendStr(const Value& value, MarkedText& out);
/// The same without authors, for comparing and for errors.
std::string Str(const Value& value);
std::string Repr(const Value& value);
/// A float: the shortest digits that read back as it, "1.0", "1e+16", "inf".
std::string ReprFloat(double value);
/// A string in quotes.
std::string ReprString(std::string_view text);

}  // namespace kv8::jinja
