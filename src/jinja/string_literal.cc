#include "jinja/string_literal.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"

namespace kv8::jinja {
namespace {

/// Appends the character of `digits`; false when they are not all digits of a valid one.
bool AppendCodePoint(std::string_view digits, int base, std::string& out) {
  std::uint32_t code_point = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code_point, base);
  const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty() ||
      code_point > 0x10FFFF || is_surrogate) {
    return false;
  }
  AppendUtf8(code_point, out);
  return true;
}

/// Takes the escape that `rest` begins with, behind its backslash.
bool TakeEscape(std::string_view& rest, std::string& out) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kCharacters = "\\'\"\a\b\f\n\r\t\v";
  const char c = rest[0];
  if (c >= '0' && c <= '7') {
    const std::size_t size =
        std::min({rest.find_first_not_of("01234567"), rest.size(), std::size_t{3}});
    const bool valid = AppendCodePoint(rest.substr(0, size), 8, out);
    rest.remove_prefix(size);
    return valid;
  }
  rest.remove_prefix(1);
  if (const std::size_t i = kLetters.find(c); i != kLetters.npos) {
    out += kCharacters[i];
    return true;
  }
  const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits > 0) {
    if (rest.size() < digits) return false;
    const bool valid = AppendCodePoint(rest.substr(0, digits), 16, out);
    rest.remove_prefix(digits);
    return valid;
  }
  if (c == 'N') return false;
  // A backslash at the end of a line joins it to the next; any other one stands for itself.
  if (c != '\n') out.append({'\\', c});
  return true;
}

}  // namespace

std::optional<std::string> UnescapeString(std::string_view literal) {
  std::string out;
  while (!literal.empty()) {
    const std::size_t plain = std::min(literal.find('\\'), literal.size());
    out += literal.substr(0, plain);
    literal.remove_prefix(plain);
    if (literal.empty()) break;
    literal.remove_prefix(1);
    if (literal.empty() || !TakeEscape(literal, out)) return std::nullopt;
  }
  return out;
}

}  // namespace kv8::jinja
