// str() and repr(), as Python prints values.
#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

namespace kv8::jinja {

/// What `{{ value }}` prints.
std::string Str(const Value& value);
void AppendStr(const Value& value, std::string& out);
std::string Repr(const Value& value);
/// A float: the shortest digits that read back as it, "1.0", "1e+16", "inf".
std::string ReprFloat(double value);
/// A string in quotes.
std::string ReprString(std::string_view text);

}  // namespace kv8::jinja
