// Strings as Python sees them: sequences of code points. All text is valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"

namespace kv8::jinja {

/// len().
std::int64_t CodePoints(std::string_view text);
/// Byte offset of code point `index`, which is at most the length.
std::size_t OffsetOf(std::string_view text, std::int64_t index);
/// The characters one by one.
std::vector<std::string_view> Characters(std::string_view text);

bool IsSpace(char32_t code_point);  // str.isspace, and \s of regular expressions
bool IsWordCharacter(char32_t code_point);
inline bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}

enum class Side { kLeft = 1, kRight = 2, kBoth = 3 };
/// strip(), lstrip(), rstrip(); without `characters` it is white space that goes.
std::string_view Strip(std::string_view text, Side side,
                       std::optional<std::string_view> characters = {});

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string Title(std::string_view text);       // str.title()
std::string Capitalize(std::string_view text);  // str.capitalize()

enum class Property { kAlpha, kDigit, kDecimal, kNumeric, kAlnum, kSpace };
/// isalpha() and its kind: all characters have it, and there is one.
bool AllHave(std::string_view text, Property property);
/// isupper(), islower(): there are cased characters, and all of them are so.
bool IsUpper(std::string_view text);
bool IsLower(std::string_view text);

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends = false);
/// split() and rsplit() at white space; `most` < 0: no limit.
std::vector<std::string_view> SplitSpace(std::string_view text, std::int64_t most, bool from_right);
/// The same at a separator, which must not be empty.
std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      std::int64_t most, bool from_right);
/// find() and rfind() in bytes, from `from` on; npos for none. Linear in the text, whatever is
/// looked for, but rfind() of a long part, which takes a copy of both.
std::size_t Find(std::string_view text, std::string_view part, std::size_t from = 0);
std::size_t FindLast(std::string_view text, std::string_view part);
/// count().
std::int64_t Count(std::string_view text, std::string_view part);
/// replace(); `most` < 0: no limit.
MarkedText Replace(const MarkedText& text, std::string_view from, const MarkedText& to,
                   std::int64_t most);

}  // namespace kv8::jinja
