// Texts of others, made safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace kv8 {

/// Names in files may hold anything: line breaks that forge a second error, escape sequences that a
/// terminal obeys, marks that turn the direction of writing. Each byte of a control character (C0,
/// DEL, C1, U+2028, U+2029, marks of direction) and each byte that is not UTF-8 becomes `\xNN`.
/// What is already so stays as it is. `kept` are characters that pass, such as "\n".
std::string Printable(std::string_view text, std::string_view kept = "");

/// JSON text, whose strings hold no C0 character, with the other control characters of Printable as
/// `\uNNNN`: the same JSON. `json` must be valid UTF-8.
std::string PrintableJson(std::string_view json);

}  // namespace kv8
