#include "jinja/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

bool IsDigitOf(char c, int base) {
  const int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'z' ? c - 'a' + 10
                    : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                           : 99;
  return digit < base;
}

/// Bytes of digits from `at` on; single underscores may stand between them.
std::size_t DigitsFrom(std::string_view text, std::size_t at, int base) {
  const std::size_t start = at;
  while (at < text.size()) {
    const bool joined =
        text[at] == '_' && at > start && at + 1 < text.size() && IsDigitOf(text[at + 1], base);
    if (!joined && !IsDigitOf(text[at], base)) break;
    ++at;
  }
  return at - start;
}

std::string WithoutUnderscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

/// Base that a prefix such as "0x" says; 0 without one.
int PrefixBase(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

std::optional<std::int64_t> Digits(std::string_view text, int base) {
  const std::string digits = WithoutUnderscores(text);
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// Bytes of the float literal that `text` begins with; 0 when it is an integer.
std::size_t FloatLength(std::string_view text) {
  std::size_t at = DigitsFrom(text, 0, 10);
  bool is_float = false;
  if (at < text.size() && text[at] == '.') {
    if (const std::size_t fraction = DigitsFrom(text, at + 1, 10)) {
      at += 1 + fraction;
      is_float = true;
    }
  }
  if (at < text.size() && (text[at] | 0x20) == 'e') {
    const bool has_sign = at + 1 < text.size() && (text[at + 1] == '+' || text[at + 1] == '-');
    if (const std::size_t exponent = DigitsFrom(text, at + 1 + has_sign, 10)) {
      at += 1 + has_sign + exponent;
      is_float = true;
    }
  }
  return is_float ? at : 0;
}

}  // namespace

std::optional<NumberToken> ReadNumber(std::string_view text, bool may_be_float) {
  if (const std::size_t length = may_be_float ? FloatLength(text) : 0) {
    return NumberToken{Value(*ParseFloat(text.substr(0, length))), length};
  }
  if (const int base = PrefixBase(text)) {
    if (const std::size_t digits = DigitsFrom(text, 2, base)) {
      const auto value = Digits(text.substr(2, digits), base);
      if (!value) return std::nullopt;
      return NumberToken{Value(*value), 2 + digits};
    }
  }
  // A zero in front of other digits is a number of its own, as Python has no such literals.
  const std::size_t length =
      text[0] == '0' ? std::max<std::size_t>(
                           1, std::min(text.find_first_not_of("0_"), DigitsFrom(text, 0, 10)))
                     : DigitsFrom(text, 0, 10);
  const auto value = Digits(text.substr(0, length), 10);
  if (!value) return std::nullopt;
  return NumberToken{Value(*value), length};
}

std::optional<Value> ParseInt(std::string_view text, int base) {
  text = Strip(text, Side::kBoth);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix = PrefixBase(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    base = prefix;
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || text.empty() || DigitsFrom(text, 0, base) != text.size()) {
    return std::nullopt;
  }
  const std::string digits = fmt::format("{}{}", negative ? "-" : "", WithoutUnderscores(text));
  if (const auto number = Digits(digits, base)) return Value(*number);
  if (base != 10) return std::nullopt;
  // Too large, so there is a digit other than 0.
  const std::size_t zeros = digits.find_first_of("123456789");
  return Value::LargeInt((negative ? "-" : "") + digits.substr(zeros));
}

std::optional<double> ParseFloat(std::string_view text) {
  text = Strip(text, Side::kBoth);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::string lower = Lower(text);
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    std::string digits = WithoutUnderscores(text);
    const bool plain = digits.find_first_not_of("0123456789.eE+-") == digits.npos &&
                       (IsDigitOf(text.empty() ? 'z' : text[0], 10) || text.starts_with('.'));
    if (!plain) return std::nullopt;
    // Numbers too large become infinite and those too small zero, as in Python.
    char* end = nullptr;
    value = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size()) return std::nullopt;
  }
  return negative ? -value : value;
}

}  // namespace kv8::jinja
