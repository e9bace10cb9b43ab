#include "jinja/python_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "jinja/operators.h"
#include "jinja/python_repr.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

/// Largest width and precision.
constexpr int kMaxWidth = 10000;

/// How one value is shown: [[fill]align][sign][#][0][width][,][.precision][type].
struct Spec {
  std::string fill = " ";
  char align = 0;  // '<', '>', '^', '='; 0: as its type has it
  char sign = '-';
  bool alternate = false;
  bool comma = false;
  int width = 0;
  int precision = -1;
  char type = 0;
};

/// Takes digits off `text`; nullopt when they say more than kMaxWidth.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  while (!text.empty() && IsAsciiDigit(text.front())) {
    number = number * 10 + (text.front() - '0');
    if (number > kMaxWidth) return std::nullopt;
    text.remove_prefix(1);
  }
  return number;
}

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

std::string FormatText(std::string text, const Spec& spec) {
  if (spec.precision >= 0) text.resize(OffsetOf(text, spec.precision));
  return Pad(std::move(text), spec, '<');
}

Error BadType(const Spec& spec, const Value& value) {
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  return Failure(fmt::format("a '{}' cannot be formatted as '{}'", value.TypeName(), spec.type));
}

/// `value` as the type in `spec` asks.
Result<std::string> FormatNumber(const Value& value, const Spec& spec) {
  static constexpr std::string_view kRealTypes = "eEfFgG%";
  static constexpr std::string_view kIntTypes = "dxXob";
  const bool as_real = kRealTypes.find(spec.type) != std::string_view::npos;
  const bool as_int = kIntTypes.find(spec.type) != std::string_view::npos;
  if (const auto number = value.AsInt(); number && (as_int || spec.type == 0)) {
    return FormatInt(*number, spec);
  }
  if (const auto number = value.AsReal(); number && (as_real || spec.type == 0)) {
    return FormatReal(*number, spec);
  }
  return BadType(spec, value);
}

// --- text % values ---

/// Reads "(name)", flags, width, precision and type that follow a percent sign.
Result<Spec> TakePercent(std::string_view& text, std::optional<std::string_view>& name) {
  const Error malformed = Failure("malformed format string");
  Spec spec;
  if (text.starts_with('(')) {
    const std::size_t end = text.find(')');
    if (end == text.npos) return malformed;
    name = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  }
  for (; !text.empty() && std::string_view("-+ 0#").find(text[0]) != text.npos;
       text.remove_prefix(1)) {
    if (text[0] == '-') spec.align = '<';
    if (text[0] == '+' || (text[0] == ' ' && spec.sign != '+')) spec.sign = text[0];
    if (text[0] == '#') spec.alternate = true;
    if (text[0] == '0' && spec.align != '<') {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
  }
  if (spec.align == '<') spec.fill.assign(1, ' ');
  const auto width = TakeNumber(text);
  if (!width) return malformed;
  spec.width = *width;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const auto precision = TakeNumber(text);
    if (!precision) return malformed;
    spec.precision = *precision;
  }
  if (text.empty()) return Failure("incomplete format");
  spec.type = text[0];
  text.remove_prefix(1);
  return spec;
}

Result<std::string> ShowPercent(const Value& value, Spec spec) {
  // What is no number is padded with spaces on the left.
  const auto text = [&spec](std::string shown) {
    spec.fill.assign(1, ' ');
    if (spec.align != '<') spec.align = '>';
    return FormatText(std::move(shown), spec);
  };
  switch (spec.type) {
    case 's':
      return text(Str(value));
    case 'r':
    case 'a':
      return text(Repr(value));
    case 'i':
    case 'u':
    case 'd':
      spec.type = 'd';
      if (value.Is(Kind::kFloat) && std::abs(value.real()) < 9e18) {
        return FormatInt(static_cast<std::int64_t>(value.real()), spec);
      }
      return FormatNumber(value, spec);
    case '%':
      return Failure("unsupported format character '%'");
    default:
      return FormatNumber(value, spec);
  }
}

/// The values of `text % values`, one after the other or by name.
class PercentValues {
 public:
  explicit PercentValues(const Value& values) : values_(values) {}

  Result<Value> Next(std::optional<std::string_view> name) {
    if (name) {
      if (!values_.Is(Kind::kDict)) return Failure("format requires a mapping");
      const Value* value = values_.dict().Find(*name);
      if (value == nullptr) return Failure(fmt::format("no value '{}' to format", *name));
      return *value;
    }
    const bool many = values_.Is(Kind::kTuple);
    const std::size_t count = many ? values_.sequence().items.size() : 1;
    if (used_ >= count) return Failure("not enough arguments for format string");
    ++used_;
    return many ? values_.sequence().items[used_ - 1] : values_;
  }

  bool all_used() const {
    if (values_.Is(Kind::kTuple)) return used_ == values_.sequence().items.size();
    return used_ == 1 || values_.Is(Kind::kDict) || values_.Is(Kind::kList);
  }

 private:
  const Value& values_;
  std::size_t used_ = 0;
};

// --- text.format(...) ---

Result<Spec> ParseSpec(std::string_view text) {
  const Error invalid = Failure(fmt::format("invalid format specification '{}'", text));
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  Spec spec;
  const std::size_t first = text.empty() ? 0 : ReadUtf8(text, 0).length;
  if (text.size() > first && is_align(text[first])) {
    spec.fill.assign(text.substr(0, first));
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&text](std::string_view options) {
    if (text.empty() || options.find(text[0]) == options.npos) return '\0';
    const char taken = text[0];
    text.remove_prefix(1);
    return taken;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  const auto width = TakeNumber(text);
  spec.comma = take(",") != 0;
  std::optional<int> precision = -1;
  if (take(".") != 0) precision = TakeNumber(text);
  spec.type = take("sdxXobeEfFgG%");
  if (!width || !precision || !text.empty()) return invalid;
  spec.width = *width;
  spec.precision = *precision;
  return spec;
}

/// One replacement field, without its braces.
Result<std::string> ShowField(std::string_view field, const Arguments& arguments,
                              std::size_t& next) {
  const std::size_t name_end = std::min(field.find_first_of("!:"), field.size());
  const std::string_view name = field.substr(0, name_end);
  std::string_view rest = field.substr(name_end);
  const Value* value = nullptr;
  if (std::all_of(name.begin(), name.end(), IsAsciiDigit) && name.size() < 6) {
    const std::size_t index = name.empty() ? next++ : std::stoul(std::string(name));
    if (index < arguments.positional.size()) value = &arguments.positional[index];
  } else {
    value = arguments.Keyword(name);
  }
  if (value == nullptr) return Failure(fmt::format("no value '{}' to format", name));
  Value shown = *value;
  if (rest.starts_with("!r") || rest.starts_with("!s")) {
    shown = Value(rest[1] == 'r' ? Repr(shown) : Str(shown));
    rest.remove_prefix(2);
  }
  if (rest.empty() || rest == ":") return Str(shown);
  if (rest[0] != ':') return Failure(fmt::format("cannot format the field '{}'", field));
  KV8_ASSIGN_OR_RETURN(const Spec spec, ParseSpec(rest.substr(1)));
  if (shown.Is(Kind::kString) && (spec.type == 0 || spec.type == 's')) {
    return FormatText(shown.text(), spec);
  }
  return FormatNumber(shown, spec);
}

}  // namespace

Result<Value> FormatPercent(std::string_view text, const Value& values) {
  std::string out;
  PercentValues source(values);
  for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%')) {
    out += text.substr(0, at);
    text.remove_prefix(at + 1);
    if (out.size() > kMaxStringBytes) return StringTooLong();
    if (text.starts_with('%')) {
      out += '%';
      text.remove_prefix(1);
      continue;
    }
    std::optional<std::string_view> name;
    KV8_ASSIGN_OR_RETURN(const Spec spec, TakePercent(text, name));
    KV8_ASSIGN_OR_RETURN(const Value value, source.Next(name));
    KV8_ASSIGN_OR_RETURN(const std::string shown, ShowPercent(value, spec));
    out += shown;
  }
  out += text;
  if (!source.all_used()) return Failure("not all arguments converted during string formatting");
  return Value(std::move(out));
}

Result<Value> FormatBraces(std::string_view text, const Arguments& arguments) {
  std::string out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      const std::size_t end = std::min(text.find_first_of("{}", at), text.size());
      out += text.substr(at, end - at);
      at = end;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      out += c;
      at += 2;
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (c == '}' || end == text.npos)
      return Failure(fmt::format("single '{}' in format string", c));
    KV8_ASSIGN_OR_RETURN(const std::string shown,
                         ShowField(text.substr(at + 1, end - at - 1), arguments, next));
    out += shown;
    if (out.size() > kMaxStringBytes) return StringTooLong();
    at = end + 1;
  }
  return Value(std::move(out));
}

}  // namespace kv8::jinja
