// String literals of templates.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kv8::jinja {

/// The text that the inside of a quoted literal stands for, with Python's escapes. Nullopt for a
/// malformed one, a surrogate, or a character by its name (\N{...}).
std::optional<std::string> UnescapeString(std::string_view literal);

}  // namespace kv8::jinja
