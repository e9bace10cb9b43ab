#include "scalepack/scale_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "scalepack/calibration_report.h"
#include "scalepack/rounding_error.h"

namespace kv8 {
namespace {

constexpr std::array kMethods = {
    std::pair{ScaleMethod::kMax, std::string_view("max")},
    std::pair{ScaleMethod::kPercentile, std::string_view("percentile")},
    std::pair{ScaleMethod::kMse, std::string_view("mse")}};

/// Clip limits that kMse tries: so many, evenly up to the maximum. In the top octave, where E4M3
/// has 7 steps, they are 128.
constexpr int kMseSteps = 256;

double LeastErrorLimit(const SideStatistics& side) {
  double best = side.max_abs;
  double least = HUGE_VAL;
  for (int step = kMseSteps; step > 0; --step) {
    const double limit = static_cast<double>(side.max_abs) * step / kMseSteps;
    const double error = EstimateRounding(side, ScaleForMaxAbs(limit)).squared_error;
    if (error < least) std::tie(best, least) = std::pair(limit, error);
  }
  return best;
}

/// Before the margin; 0 where there is none.
double ClipLimit(const SideStatistics& side, const ScaleRule& rule) {
  if (side.max_abs <= 0) return 0;
  switch (rule.method) {
    case ScaleMethod::kMax:
      return side.max_abs;
    case ScaleMethod::kPercentile:
      return std::min<double>(PercentileUpperBound(side, rule.percentile / 100), side.max_abs);
    case ScaleMethod::kMse:
      return LeastErrorLimit(side);
  }
  return 0;
}

/// What is wrong with the values of a rule, and the key of the value.
std::optional<std::pair<std::string_view, std::string>> Fault(const ScaleRule& rule) {
  const bool wants_percentile = rule.method == ScaleMethod::kPercentile;
  if (wants_percentile && !(rule.percentile > 0 && rule.percentile <= 100)) {
    return std::pair("percentile",
                     fmt::format("is {}; must be above 0, at most 100", rule.percentile));
  }
  if (!wants_percentile && rule.percentile != 0) {
    return std::pair("percentile", fmt::format("belongs to the method \"percentile\"; here it is "
                                               "\"{}\"",
                                               Name(rule.method)));
  }
  if (!(rule.margin >= 1 && rule.margin <= kMaxMargin)) {
    return std::pair("margin", fmt::format("is {}; must be 1 to {}", rule.margin, kMaxMargin));
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(ScaleMethod method) {
  return kMethods[static_cast<std::size_t>(method)].second;
}

float ScaleFor(const SideStatistics& side, const ScaleRule& rule) {
  const double limit = ClipLimit(side, rule) * rule.margin;
  return limit > 0 ? ScaleForMaxAbs(limit) : 0.0f;
}

std::string Describe(const ScaleRule& rule) {
  std::string text(Name(rule.method));
  if (rule.method == ScaleMethod::kPercentile) text += fmt::format(" {}", rule.percentile);
  if (rule.margin != 1) text += fmt::format(", margin {}", rule.margin);
  return text;
}

std::string_view ClipLimitName(const ScaleRule& rule) {
  return rule == ScaleRule{} ? "max_abs" : "clip_limit";
}

void WriteScaleRule(const ScaleRule& rule, Json* object) {
  if (rule == ScaleRule{}) return;
  Json json = {{"method", Name(rule.method)}, {"margin", rule.margin}};
  if (rule.method == ScaleMethod::kPercentile) json["percentile"] = rule.percentile;
  (*object)[std::string(kScaleRuleKey)] = std::move(json);
}

Result<ScaleRule> ReadScaleRule(const JsonFields& object) {
  ScaleRule rule;
  if (!object.Has(kScaleRuleKey)) return rule;
  KV8_ASSIGN_OR_RETURN(const JsonFields fields, object.Object(kScaleRuleKey));
  KV8_ASSIGN_OR_RETURN(const std::string method, fields.String("method"));
  const auto* const found =
      std::ranges::find(kMethods, method, [](const auto& known) { return known.second; });
  if (found == kMethods.end()) {
    return fields.Bad("method", "must be \"max\", \"percentile\" or \"mse\"");
  }
  rule.method = found->first;
  KV8_ASSIGN_OR_RETURN(rule.margin, fields.Number("margin"));
  if (fields.Has("percentile")) {
    KV8_ASSIGN_OR_RETURN(rule.percentile, fields.Number("percentile"));
  }
  if (const auto fault = Fault(rule)) return fields.Bad(fault->first, fault->second);
  if (rule == ScaleRule{}) {
    return object.Bad(kScaleRuleKey, "is the default, which is written by leaving it out");
  }
  return rule;
}

Result<void> CheckScaleRule(const ScaleRule& rule, std::string_view where) {
  const auto fault = Fault(rule);
  if (!fault) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("the {} {}", fault->first, fault->second),
               std::string(where),
               {}};
}

}  // namespace kv8
