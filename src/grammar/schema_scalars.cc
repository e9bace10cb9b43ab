// Strings and numbers of a schema.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "grammar/char_class.h"
#include "grammar/number_range.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"
#include "grammar/string_formats.h"

namespace kv8 {
namespace {

// Whole numbers of this size and less are exact in a double, and leave room for a step.
constexpr double kLargestBound = 1e15;

bool Has(const OrderedJson& schema, const char* key) {
  return schema.contains(key);
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
  KV8_ASSIGN_OR_RETURN(const Limits limits, LimitsOf(schema, "minLength", "maxLength", path));
  const bool limited = limits.min > 0 || limits.max != kNoLimit;
  if (!Has(schema, "pattern") && !Has(schema, "format")) {
    if (limits.min > limits.max) return builder_.Nothing();
    return text_.String(kReturnPc, limits.min, limits.max);
  }
  if (limited || (Has(schema, "pattern") && Has(schema, "format"))) {
    return CannotHonour(path, "more than one of \"pattern\", \"format\" and length limits");
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
  KV8_ASSIGN_OR_RETURN(const Regex regex, ParseRegex(expression, "JSON schema " + place));
  const Pc inner = AddRegex(builder_, regex, is_pattern ? Anchoring::kSearch : Anchoring::kWhole,
                            TextForm::kJsonString, builder_.Literal("\"", kReturnPc));
  return builder_.Literal("\"", inner);
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
    if (std::abs(value.get<double>()) > kLargestBound) {
      return CannotHonour(Below(path, key), fmt::format("is beyond {:.0f}", kLargestBound));
    }
    const bool tighter = !bound || (lower ? value >= bound->value : value <= bound->value);
    if (tighter) bound = Bound{value, key == included};
  }
  return bound;
}

Result<Pc> SchemaCompiler::IntegerOf(const OrderedJson& schema, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const auto lower, BoundOf(schema, true, path));
  KV8_ASSIGN_OR_RETURN(const auto upper, BoundOf(schema, false, path));
  if (!lower && !upper) return text_.Integer(kReturnPc);
  std::optional<std::int64_t> low;
  std::optional<std::int64_t> high;
  if (lower) {
    const double value = lower->value.get<double>();
    low = static_cast<std::int64_t>(std::ceil(value));
    if (!lower->included && std::ceil(value) == value) ++*low;
  }
  if (upper) {
    const double value = upper->value.get<double>();
    high = static_cast<std::int64_t>(std::floor(value));
    if (!upper->included && std::floor(value) == value) --*high;
  }
  if (low && high && *low > *high) return builder_.Nothing();
  return text_.Pattern(IntegersBetween(low, high), kReturnPc);
}

Result<Pc> SchemaCompiler::NumberOf(const OrderedJson& schema, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const auto lower, BoundOf(schema, true, path));
  KV8_ASSIGN_OR_RETURN(const auto upper, BoundOf(schema, false, path));
  if (!lower && !upper) return text_.Number(kReturnPc);
  std::optional<DecimalLimit> low;
  std::optional<DecimalLimit> high;
  for (const auto& [bound, limit] : {std::pair{&lower, &low}, std::pair{&upper, &high}}) {
    if (!*bound) continue;
    const double value = (*bound)->value.get<double>();
    if (value != std::trunc(value)) {
      return CannotHonour(path, "a limit of a number that is not whole");
    }
    *limit = DecimalLimit{static_cast<std::int64_t>(value), (*bound)->included};
  }
  const bool empty = low && high &&
                     (low->value > high->value ||
                      (low->value == high->value && !(low->included && high->included)));
  if (empty) return builder_.Nothing();
  return text_.Pattern(DecimalsBetween(low, high), kReturnPc);
}

}  // namespace kv8
