// The `format` values of JSON Schema that are generated exactly, as regular expressions.
#pragma once

#include <string>
#include <string_view>

namespace kv8 {

/// The expression of a format; empty for one that is not supported.
std::string_view StringFormat(std::string_view name);

/// Their names, for messages.
std::string StringFormatNames();

}  // namespace kv8
