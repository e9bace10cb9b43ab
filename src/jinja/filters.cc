#include "jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/number_text.h"
#include "jinja/python_repr.h"

namespace kv8::jinja {
namespace {

Result<Value> AbsFilter(Runtime&, const Bound& args) {
  if (args[0]->Is(Kind::kFloat)) return Value(std::abs(args[0]->real()));
  KV8_ASSIGN_OR_RETURN(const std::int64_t number, IntOf(args[0], 0, "abs: the value"));
  return number < 0 ? Negate(Value(number)) : Value(number);
}

/// The whole part of a float; nullopt for what no 64 bits hold.
std::optional<std::int64_t> Truncate(double number) {
  constexpr double kTooLarge = 9223372036854775808.0;  // 2^63
  if (!(std::abs(number) < kTooLarge)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

/// int() of a float; nullopt for what is not finite.
std::optional<Value> WholePart(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  if (const auto small = Truncate(number)) return Value(*small);
  return Value::LargeInt(fmt::format("{:.0f}", number));
}

Result<Value> IntFilter(Runtime&, const Bound& args) {
  const Value& value = *args[0];
  KV8_ASSIGN_OR_RETURN(const std::int64_t base, IntOf(args[2], 10, "int: the base"));
  if (value.Is(Kind::kLargeInt)) return value;
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  std::optional<Value> number;
  if (value.Is(Kind::kString)) {
    if (base >= 0 && base <= 36) number = ParseInt(value.text(), static_cast<int>(base));
    const auto real = number ? std::nullopt : ParseFloat(value.text());
    if (real) number = WholePart(*real);
  } else if (value.Is(Kind::kFloat)) {
    number = WholePart(value.real());
  } else if (const auto small = value.AsInt()) {
    number = Value(*small);
  }
  if (number) return *number;
  return args[1] == nullptr ? Value(std::int64_t{0}) : *args[1];
}

Result<Value> FloatFilter(Runtime&, const Bound& args) {
  const Value& value = *args[0];
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  const auto number = value.Is(Kind::kString) ? ParseFloat(value.text()) : value.AsReal();
  if (number) return Value(*number);
  return args[1] == nullptr ? Value(0.0) : *args[1];
}

/// round(): to the nearest, ties to even, as exact as the decimal digits of the float.
Value RoundCommon(const Value& value, std::int64_t precision) {
  constexpr std::int64_t kMost = 300;
  precision = std::clamp(precision, -kMost, kMost);
  if (!value.Is(Kind::kFloat) && precision >= 0)
    return value.Is(Kind::kBool) ? Value(*value.AsInt()) : value;
  const double number = *value.AsReal();
  if (!std::isfinite(number)) return value;
  if (precision >= 0) return Value(*ParseFloat(fmt::format("{:.{}f}", number, precision)));
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  const double rounded = std::nearbyint(number / unit) * unit;
  if (value.Is(Kind::kFloat)) return Value(rounded);
  return Value(Truncate(rounded).value_or(0));
}

Result<Value> RoundFilter(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::int64_t precision, IntOf(args[1], 0, "round: the precision"));
  KV8_ASSIGN_OR_RETURN(const auto method, TextOf(args[2], "common", "round: the method"));
  if (args[0]->Is(Kind::kUndefined)) return UndefinedError(*args[0]);
  const auto number = args[0]->AsReal();
  if (!number) return Failure(fmt::format("round: a '{}' is no number", args[0]->TypeName()));
  if (method == "common") return RoundCommon(*args[0], precision);
  if (method != "ceil" && method != "floor") {
    return Failure("method must be common, ceil or floor");
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

}  // namespace

std::vector<Native> NumberFilters() {
  return {
      {"abs", "x", AbsFilter},
      {"float", "value default?", FloatFilter},
      {"int", "value default? base?", IntFilter},
      {"round", "value precision? method?", RoundFilter},
  };
}

const Native* FindFilter(std::string_view name) {
  static const NativeTable kTable(
      {TextFilters(), SequenceFilters(), SelectionFilters(), OrderFilters(), NumberFilters()});
  return kTable.Find(name);
}

Result<Value> BoundedReplace(Runtime& runtime, const MarkedText& text, std::string_view from,
                             const MarkedText& to, std::int64_t most) {
  KV8_RETURN_IF_ERROR(runtime.Charge(text.size() / kBytesPerWeight));
  const auto found = static_cast<std::uint64_t>(Count(text.text(), from));
  const std::uint64_t times = most < 0 ? found : std::min<std::uint64_t>(found, most);
  if (to.size() > 0 && times > kMaxStringBytes / to.size()) return StringTooLong();
  MarkedText out = Replace(text, from, to, most);
  if (out.size() > kMaxStringBytes) return StringTooLong();
  return Value(std::move(out));
}

Result<Value> PadText(const Value& text, std::int64_t width, const Value& fill, Side padded) {
  if (width <= text.characters().length()) return text;
  const std::int64_t missing = width - text.characters().length();
  if (static_cast<std::uint64_t>(missing) > kMaxStringBytes / 4) return StringTooLong();
  // Python's centring: the odd one goes left when the width is odd.
  std::int64_t left = missing / 2 + (missing & width & 1);
  if (padded == Side::kLeft) left = missing;
  if (padded == Side::kRight) left = 0;
  MarkedText out;
  for (std::int64_t i = 0; i < left; ++i) out.Append(fill.marked());
  out.Append(text.marked());
  for (std::int64_t i = left; i < missing; ++i) out.Append(fill.marked());
  return Value(std::move(out));
}

}  // namespace kv8::jinja
