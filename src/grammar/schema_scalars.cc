// Strings and numbers of a schema.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "grammar/char_set.h"
#include "grammar/number_range.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"
#include "grammar/string_formats.h"

namespace kv8 {
namespace {

// Whole numbers of this size and less are exact in a double.
constexpr double kExactBound = 1e15;
constexpr const char* kMultipleOf = "multipleOf";
constexpr const char* kContentType = "contentMediaType";
constexpr const char* kContentSchema = "contentSchema";

bool Has(const OrderedJson& schema, const char* key) {
  return schema.contains(key);
}

/// The first integer that a limit allows, going in direction `step`, 1 or -1.
Result<std::int64_t> FirstInteger(const OrderedJson& limit, bool beyond, std::int64_t step,
                                  const std::string& path) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  if (limit.is_number_float()) {
    const auto value = limit.get<double>();
    if (std::abs(value) > kExactBound) return CannotHonour(path, "a limit beyond 10^15");
    const double whole = step > 0 ? std::ceil(value) : std::floor(value);
    return static_cast<std::int64_t>(whole) + (beyond && whole == value ? step : 0);
  }
  const bool fits =
      !limit.is_number_unsigned() || limit.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMax);
  const std::int64_t value = fits ? limit.get<std::int64_t>() : kMax;
  if (!fits || (beyond && value == (step > 0 ? kMax : kMin))) {
    return CannotHonour(path, "a limit of an integer that is beyond 64 bits");
  }
  return value + (beyond ? step : 0);
}

}  // namespace

Result<SchemaCompiler::Limits> SchemaCompiler::LimitsOf(const OrderedJson& schema, const char* min,
                                                        const char* max, const std::string& path) {
  Limits limits;
  for (const char* key : {min, max}) {
    if (!Has(schema, key)) continue;
    const OrderedJson& value = schema[key];
    const double number = value.is_number() ? value.get<double>() : -1;
    if (!(number >= 0) || number != std::floor(number)) {
      return BadSchema(Below(path, key), "is not a count");
    }
    const double limit = std::min(number, double{kNoLimit} - 1);
    (key == min ? limits.min : limits.max) = static_cast<std::uint32_t>(limit);
  }
  return limits;
}

Result<Pc> SchemaCompiler::StringOf(const OrderedJson& schema, const std::string& path) {
  if (Has(schema, kContentType) || Has(schema, kContentSchema)) return JsonStringOf(schema, path);
  const bool plain = writing_.strings == TextForm::kPlain;
  KV8_ASSIGN_OR_RETURN(const Limits limits, LimitsOf(schema, "minLength", "maxLength", path));
  if (!Has(schema, "pattern") && !Has(schema, "format")) {
    if (limits.min > limits.max) return builder_.Nothing();
    if (plain) return AddText(builder_, limits.min, limits.max, TextForm::kPlain, kReturnPc);
    return text_.String(kReturnPc, limits.min, limits.max);
  }
  if (Has(schema, "pattern") && Has(schema, "format")) {
    return CannotHonour(path, "\"pattern\" and \"format\" together");
  }
  const bool is_pattern = Has(schema, "pattern");
  const std::string place = Below(path, is_pattern ? "pattern" : "format");
  const OrderedJson& value = schema[is_pattern ? "pattern" : "format"];
  if (!value.is_string()) return BadSchema(place, "is not a string");
  const auto& text = value.get_ref<const std::string&>();
  const std::string_view expression = is_pattern ? text : StringFormat(text);
  if (!is_pattern && expression.empty()) {
    return CannotHonour(place, fmt::format("the format \"{}\" is not supported; {} are", text,
                                           StringFormatNames()));
  }
  KV8_ASSIGN_OR_RETURN(Regex regex, ParseRegex(expression, "JSON schema " + place));
  const Anchoring anchoring = is_pattern ? Anchoring::kSearch : Anchoring::kWhole;
  if (!LimitLength(regex, anchoring, limits.min, limits.max)) {
    return CannotHonour(path, "length limits beside this expression");
  }
  if (plain) return AddRegex(builder_, regex, anchoring, TextForm::kPlain, kReturnPc);
  const Pc inner = AddRegex(builder_, regex, anchoring, TextForm::kJsonString,
                            builder_.Literal("\"", kReturnPc));
  return builder_.Literal("\"", inner);
}

/// A string whose text is JSON.
Result<Pc> SchemaCompiler::JsonStringOf(const OrderedJson& schema, const std::string& path) {
  if (!Has(schema, kContentType)) {
    return CannotHonour(path, "\"contentSchema\" without \"contentMediaType\"");
  }
  if (schema[kContentType] != "application/json") {
    return CannotHonour(Below(path, kContentType), "is not \"application/json\"");
  }
  for (const char* other : {"minLength", "maxLength", "pattern", "format"}) {
    if (!Has(schema, other)) continue;
    return CannotHonour(path, fmt::format("\"{}\" beside \"contentMediaType\"", other));
  }
  const bool plain = writing_.strings == TextForm::kPlain;
  const Writing inside{.quoting = plain ? 0 : writing_.quoting + 1};
  const std::string place = Below(path, kContentSchema);
  if (inside.quoting > kMaxQuoting) {
    return CannotHonour(
        place, fmt::format("JSON in more than {} strings inside one another", kMaxQuoting));
  }
  KV8_ASSIGN_OR_RETURN(const RuleId content,
                       RuleOf(schema.value(kContentSchema, OrderedJson(true)), place, inside));
  if (plain) return builder_.Call(content, kReturnPc);
  return builder_.Literal("\"", builder_.Call(content, builder_.Literal("\"", kReturnPc)));
}

/// The tighter of the two keywords for one side.
Result<std::optional<SchemaCompiler::Bound>> SchemaCompiler::BoundOf(const OrderedJson& schema,
                                                                     bool lower,
                                                                     const std::string& path) {
  const char* included = lower ? "minimum" : "maximum";
  const char* excluded = lower ? "exclusiveMinimum" : "exclusiveMaximum";
  std::optional<Bound> bound;
  for (const char* key : {included, excluded}) {
    if (!Has(schema, key)) continue;
    const OrderedJson& value = schema[key];
    if (!value.is_number()) return BadSchema(Below(path, key), "is not a number");
    const bool tighter = !bound || (lower ? value >= bound->value : value <= bound->value);
    if (tighter) bound = Bound{value, key == included};
  }
  return bound;
}

/// As decimal digits; nullopt where there is none.
Result<std::optional<DecimalLimit>> SchemaCompiler::DecimalBoundOf(const OrderedJson& schema,
                                                                   bool lower,
                                                                   const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const auto bound, BoundOf(schema, lower, path));
  if (!bound) return std::optional<DecimalLimit>();
  const auto limit = DecimalLimit::Of(bound->value.get<double>(), bound->included);
  if (limit) return limit;
  return CannotHonour(path,
                      fmt::format("a limit of a number with more than {} digits", kExactDigits));
}

Result<std::optional<DecimalStep>> SchemaCompiler::StepOf(const OrderedJson& schema,
                                                          const std::string& path) {
  if (!Has(schema, kMultipleOf)) return std::optional<DecimalStep>();
  const std::string place = Below(path, kMultipleOf);
  const OrderedJson& value = schema[kMultipleOf];
  if (!value.is_number() || value <= 0) return BadSchema(place, "is not a number above 0");
  const auto step = DecimalStep::Of(value);
  if (step) return step;
  return CannotHonour(place, fmt::format("it has more than {} digits", kExactDigits));
}

/// From low to high, in units of the step.
Result<Pc> SchemaCompiler::MultiplesOf(const DecimalStep& step, std::int64_t low, std::int64_t high,
                                       const std::string& path, Pc next) {
  const auto entry = AddMultiples(builder_, step, low, high, next);
  if (entry) return *entry;
  return CannotHonour(Below(path, kMultipleOf),
                      fmt::format("it has more than {} remainders of decimal digits to tell apart",
                                  kMaxRemainders));
}

Result<Pc> SchemaCompiler::IntegerOf(const OrderedJson& schema, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const auto lower, BoundOf(schema, true, path));
  KV8_ASSIGN_OR_RETURN(const auto upper, BoundOf(schema, false, path));
  KV8_ASSIGN_OR_RETURN(auto step, StepOf(schema, path));
  if (!lower && !upper && !step) return text_.Integer(kReturnPc);
  std::optional<std::int64_t> low;
  std::optional<std::int64_t> high;
  if (lower) {
    KV8_ASSIGN_OR_RETURN(low, FirstInteger(lower->value, !lower->included, 1, path));
  }
  if (upper) {
    KV8_ASSIGN_OR_RETURN(high, FirstInteger(upper->value, !upper->included, -1, path));
  }
  if (low && high && *low > *high) return builder_.Nothing();
  if (!step) return text_.Pattern(IntegersBetween(low, high), kReturnPc);
  step = DecimalStep::OfBoth(*step, DecimalStep{});
  if (!step) return CannotHonour(Below(path, kMultipleOf), "its whole multiples are too large");
  // A side without a limit has one that is far enough from the other.
  using Integer = std::numeric_limits<std::int64_t>;
  if (!low) low = high.value_or(0) >= -kMaxUnits ? -kMaxUnits : Integer::min();
  if (!high) high = *low <= kMaxUnits ? kMaxUnits : Integer::max();
  return MultiplesOf(*step, *low, *high, path, kReturnPc);
}

Result<Pc> SchemaCompiler::NumberOf(const OrderedJson& schema, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const auto low, DecimalBoundOf(schema, true, path));
  KV8_ASSIGN_OR_RETURN(const auto high, DecimalBoundOf(schema, false, path));
  KV8_ASSIGN_OR_RETURN(const auto step, StepOf(schema, path));
  if (step) return NumberMultiplesOf(*step, low, high, path);
  if (!low && !high) return text_.Number(kReturnPc);
  const std::string pattern = DecimalsBetween(low, high);
  return pattern.empty() ? builder_.Nothing() : text_.Pattern(pattern, kReturnPc);
}

/// So many digits that a double has the same ones.
Result<Pc> SchemaCompiler::NumberMultiplesOf(const DecimalStep& step,
                                             const std::optional<DecimalLimit>& low,
                                             std::optional<DecimalLimit> high,
                                             const std::string& path) {
  const std::int64_t first = low ? step.FirstUnit(*low) : -kMaxUnits;
  std::int64_t last = kMaxUnits;
  if (high) {
    high->negative = !high->negative;
    last = -step.FirstUnit(*high);
  }
  if (first > kMaxUnits || last < -kMaxUnits) {
    return CannotHonour(
        path, fmt::format("a limit beyond which multiples have more than {} digits", kExactDigits));
  }
  const Pc end =
      step.places > 0 ? kReturnPc : builder_.Either(builder_.Literal(".0", kReturnPc), kReturnPc);
  return MultiplesOf(step, std::max(first, -kMaxUnits), std::min(last, kMaxUnits), path, end);
}

/// Whether a listed value keeps the limits of numbers.
Result<bool> SchemaCompiler::KeepsLimits(const OrderedJson& value, const OrderedJson& schema,
                                         const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const auto lower, BoundOf(schema, true, path));
  KV8_ASSIGN_OR_RETURN(const auto upper, BoundOf(schema, false, path));
  KV8_ASSIGN_OR_RETURN(const auto step, StepOf(schema, path));
  const bool limited = lower || upper || step;
  if (!limited || !(value.is_number() || LargeInteger(value))) return true;
  const auto digits =
      value.is_number() ? DecimalLimit::Of(value.get<double>(), true) : std::nullopt;
  if (!digits) {
    return CannotHonour(
        path, fmt::format("a listed number with more than {} digits beside limits", kExactDigits));
  }
  if (lower && (lower->included ? value < lower->value : value <= lower->value)) return false;
  if (upper && (upper->included ? value > upper->value : value >= upper->value)) return false;
  return !step || step->Divides(*digits);
}

}  // namespace kv8
