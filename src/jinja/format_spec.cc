#include "jinja/format_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/python_repr.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

/// Largest width and precision.
constexpr int kMaxWidth = 10000;

std::string Pad(std::string body, const Spec& spec, char default_align) {
  const std::int64_t missing = spec.width - CodePoints(body);
  if (missing <= 0) return body;
  const char align = spec.align == 0 ? default_align : spec.align;
  const std::int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string fill_left;
  std::string fill_right;
  for (std::int64_t i = 0; i < missing; ++i) (i < left ? fill_left : fill_right) += spec.fill;
  if (align == '=') {
    const std::size_t sign = !body.empty() && (body[0] == '-' || body[0] == '+' || body[0] == ' ');
    return body.insert(sign, fill_left);
  }
  return fill_left + body + fill_right;
}

std::string WithSign(std::string digits, bool negative, const Spec& spec) {
  if (negative) return fmt::format("-{}", digits);
  if (spec.sign == '+' || spec.sign == ' ') return fmt::format("{}{}", spec.sign, digits);
  return digits;
}

void GroupThousands(std::string& digits) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = whole; at > 3;) digits.insert(at -= 3, 1, ',');
}

std::string FormatReal(double number, const Spec& spec) {
  const double size = std::abs(number);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  std::string digits;
  switch (spec.type) {
    case 'e':
    case 'E':
      digits = fmt::format("{:.{}e}", size, precision);
      break;
    case 'g':
    case 'G':
      digits = fmt::format("{:.{}g}", size, std::max(precision, 1));
      break;
    case 0:
      digits = spec.precision < 0 ? ReprFloat(size) : fmt::format("{:.{}g}", size, precision);
      break;
    case '%':
      digits = fmt::format("{:.{}f}%", size * 100, precision);
      break;
    default:
      digits = fmt::format("{:.{}f}", size, precision);
  }
  if (spec.comma) GroupThousands(digits);
  return Pad(WithSign(std::move(digits), std::signbit(number), spec), spec, '>');
}

Error BadType(const Spec& spec, const Value& value) {
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  return Failure(fmt::format("a '{}' cannot be formatted as '{}'", value.TypeName(), spec.type));
}

}  // namespace

std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  while (!text.empty() && IsAsciiDigit(text.front())) {
    number = number * 10 + (text.front() - '0');
    if (number > kMaxWidth) return std::nullopt;
    text.remove_prefix(1);
  }
  return number;
}

std::string FormatText(std::string text, const Spec& spec) {
  if (spec.precision >= 0) text.resize(OffsetOf(text, spec.precision));
  return Pad(std::move(text), spec, '<');
}

Result<std::string> FormatInt(std::int64_t number, const Spec& spec) {
  const std::uint64_t size =
      number < 0 ? -static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  std::string digits;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{}{:x}", spec.alternate ? "0x" : "", size);
      break;
    case 'X':
      digits = fmt::format("{}{:X}", spec.alternate ? "0X" : "", size);
      break;
    case 'o':
      digits = fmt::format("{}{:o}", spec.alternate ? "0o" : "", size);
      break;
    case 'b':
      digits = fmt::format("{}{:b}", spec.alternate ? "0b" : "", size);
      break;
    default:
      digits = fmt::format("{}", size);
      if (spec.comma) GroupThousands(digits);
  }
  return Pad(WithSign(std::move(digits), number < 0, spec), spec, '>');
}

Result<std::string> FormatNumber(const Value& value, const Spec& spec) {
  static constexpr std::string_view kRealTypes = "eEfFgG%";
  static constexpr std::string_view kIntTypes = "dxXob";
  const bool as_real = kRealTypes.find(spec.type) != std::string_view::npos;
  const bool as_int = kIntTypes.find(spec.type) != std::string_view::npos;
  if (const auto number = value.AsInt(); number && (as_int || spec.type == 0)) {
    return FormatInt(*number, spec);
  }
  if (value.Is(Kind::kLargeInt) && (spec.type == 'd' || spec.type == 0)) {
    const bool negative = value.digits().starts_with('-');
    std::string digits = value.digits().substr(negative ? 1 : 0);
    if (spec.comma) GroupThousands(digits);
    return Pad(WithSign(std::move(digits), negative, spec), spec, '>');
  }
  if (const auto number = value.AsReal(); number && (as_real || spec.type == 0)) {
    return FormatReal(*number, spec);
  }
  return BadType(spec, value);
}

Author AuthorOf(const Value& value) {
  return value.Is(Kind::kString) ? value.marked().worst() : MarkedStr(value).worst();
}

}  // namespace kv8::jinja
