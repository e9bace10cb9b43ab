#include "jinja/python_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "jinja/format_spec.h"
#include "jinja/operators.h"
#include "jinja/python_repr.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

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

/// Fills the fields of one text.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  /// `nesting`: how many texts the fields may still be inside of.
  Result<MarkedText> Format(const MarkedText& format, int nesting);

 private:
  Result<MarkedText> TakeField(const MarkedText& format, std::string_view& rest, int nesting);
  Result<Value> Find(std::string_view path);
  Result<Value> FindFirst(std::string_view name);

  Runtime& runtime_;
  const Arguments& arguments_;
  std::size_t next_ = 0;  // of the fields without a name
};

Result<MarkedText> BraceFormatter::Format(const MarkedText& format, int nesting) {
  MarkedText out;
  for (std::string_view rest = format.text(); !rest.empty();) {
    const std::size_t brace = std::min(rest.find_first_of("{}"), rest.size());
    out.AppendPart(format, rest.substr(0, brace));
    rest.remove_prefix(brace);
    if (rest.starts_with("{{") || rest.starts_with("}}")) {
      out.AppendPart(format, rest.substr(0, 1));
      rest.remove_prefix(2);
    } else if (rest.starts_with('{')) {
      rest.remove_prefix(1);
      KV8_ASSIGN_OR_RETURN(const MarkedText shown, TakeField(format, rest, nesting));
      out.Append(shown);
    } else if (rest.starts_with('}')) {
      return Failure("single '}' in format string");
    }
    if (out.size() > kMaxStringBytes) return StringTooLong();
    KV8_RETURN_IF_ERROR(runtime_.Charge(1));
  }
  return out;
}

/// Bytes of a field's path: what is in brackets may hold any character.
std::size_t PathLength(std::string_view field) {
  std::size_t at = 0;
  while (at < field.size() && std::string_view("}:!{").find(field[at]) == std::string_view::npos) {
    at = field[at] == '[' ? std::min(field.find(']', at), field.size()) : at + 1;
  }
  return at;
}

/// Where the brace closes that opened before `text`; npos where none does.
std::size_t ClosingBrace(std::string_view text) {
  int open = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    open += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
    if (open == 0) return at;
  }
  return text.npos;
}

/// Takes a field and its closing brace off `rest`.
Result<MarkedText> BraceFormatter::TakeField(const MarkedText& format, std::string_view& rest,
                                             int nesting) {
  const std::string_view path = rest.substr(0, PathLength(rest));
  rest.remove_prefix(path.size());
  const std::size_t end = ClosingBrace(rest);
  if (end == rest.npos) return Failure("expected '}' before end of string");
  std::string_view options = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  if (nesting == 0) return Failure("Max string recursion exceeded");
  KV8_ASSIGN_OR_RETURN(Value shown, Find(path));
  if (options.starts_with("!r")) {
    shown = Value(MarkedText(Repr(shown), AuthorOf(shown)));
  } else if (options.starts_with("!s")) {
    shown = Value(MarkedStr(shown));
  }
  if (options.starts_with("!r") || options.starts_with("!s")) options.remove_prefix(2);
  if (options.empty() || options == ":") return MarkedStr(shown);
  if (options[0] != ':') return Failure(fmt::format("cannot format the field '{}'", path));
  MarkedText spec_format;
  spec_format.AppendPart(format, options.substr(1));
  KV8_ASSIGN_OR_RETURN(const MarkedText spec_text, Format(spec_format, nesting - 1));
  KV8_ASSIGN_OR_RETURN(const Spec spec, ParseSpec(spec_text.text()));
  const Author author = std::max(AuthorOf(shown), spec_text.worst());
  if (shown.Is(Kind::kString) && (spec.type == 0 || spec.type == 's')) {
    return MarkedText(FormatText(shown.text(), spec), author);
  }
  KV8_ASSIGN_OR_RETURN(std::string number, FormatNumber(shown, spec));
  return MarkedText(std::move(number), author);
}

/// The value of "0", "name" or nothing.
Result<Value> BraceFormatter::FindFirst(std::string_view name) {
  const Value* value = nullptr;
  if (std::all_of(name.begin(), name.end(), IsAsciiDigit) && name.size() < 6) {
    const std::size_t index = name.empty() ? next_++ : std::stoul(std::string(name));
    if (index < arguments_.positional.size()) value = &arguments_.positional[index];
  } else {
    value = arguments_.Keyword(name);
  }
  if (value == nullptr) return Failure(fmt::format("no value '{}' to format", name));
  return *value;
}

/// The value at "name.attribute[item]".
Result<Value> BraceFormatter::Find(std::string_view path) {
  const std::size_t name_end = std::min(path.find_first_of(".["), path.size());
  if (name_end == 0 && !path.empty()) return Failure("a field with a path needs a name or number");
  KV8_ASSIGN_OR_RETURN(Value value, FindFirst(path.substr(0, name_end)));
  for (path.remove_prefix(name_end); !path.empty();) {
    const bool item = path[0] == '[';
    if (!item && path[0] != '.') return Failure("Only '.' or '[' may follow ']' in format field");
    path.remove_prefix(1);
    const std::size_t end = std::min(item ? path.find(']') : path.find_first_of(".["), path.size());
    const std::string_view step = path.substr(0, end);
    if (step.empty()) return Failure("Empty attribute in format string");
    if (item && end == path.size()) return Failure("Missing ']' in format string");
    path.remove_prefix(end + (item ? 1 : 0));
    const bool is_index =
        item && step.size() < 10 && std::all_of(step.begin(), step.end(), IsAsciiDigit);
    auto next = !item ? runtime_.GetAttribute(value, step)
                : is_index
                    ? runtime_.GetItem(value, Value(std::int64_t{std::stoi(std::string(step))}))
                    : runtime_.GetItem(value, Value(step));
    KV8_ASSIGN_OR_RETURN(value, std::move(next));
  }
  return value;
}

}  // namespace

Result<Value> FormatPercent(const Value& format, const Value& values) {
  std::string_view text = format.text();
  MarkedText out;
  PercentValues source(values);
  for (std::size_t at = text.find('%'); at != text.npos; at = text.find('%')) {
    out.AppendPart(format.marked(), text.substr(0, at));
    text.remove_prefix(at + 1);
    if (out.size() > kMaxStringBytes) return StringTooLong();
    if (text.starts_with('%')) {
      out.AppendPart(format.marked(), text.substr(0, 1));
      text.remove_prefix(1);
      continue;
    }
    std::optional<std::string_view> name;
    KV8_ASSIGN_OR_RETURN(const Spec spec, TakePercent(text, name));
    KV8_ASSIGN_OR_RETURN(const Value value, source.Next(name));
    KV8_ASSIGN_OR_RETURN(const std::string shown, ShowPercent(value, spec));
    out.Append(shown, AuthorOf(value));
  }
  out.AppendPart(format.marked(), text);
  if (!source.all_used()) return Failure("not all arguments converted during string formatting");
  return Value(std::move(out));
}

Result<Value> FormatBraces(Runtime& runtime, const Value& text, const Arguments& arguments) {
  constexpr int kNesting = 2;  // Python's own
  KV8_ASSIGN_OR_RETURN(MarkedText out,
                       BraceFormatter(runtime, arguments).Format(text.marked(), kNesting));
  return Value(std::move(out));
}

}  // namespace kv8::jinja
