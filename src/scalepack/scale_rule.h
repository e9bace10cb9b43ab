// How a scale follows from what was measured: the method and the margin.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_fields.h"
#include "kv8/error.h"

namespace kv8 {

struct SideStatistics;

/// What decides the clip limit, the magnitude that E4M3's 448 stands for.
enum class ScaleMethod {
  kMax,         // the largest magnitude seen
  kPercentile,  // the upper edge of the histogram bin that holds the percentile, at most the
                // maximum
  kMse,         // of the maximum's 1/256, 2/256, ... 256/256 the one with the least rounding error
};

std::string_view Name(ScaleMethod method);

struct ScaleRule {
  ScaleMethod method = ScaleMethod::kMax;
  double percentile = 0;  // in (0, 100]; of kPercentile only
  double margin = 1;      // factor on the clip limit, 1 to kMaxMargin

  bool operator==(const ScaleRule&) const = default;
};

inline constexpr double kMaxMargin = 2;

/// The scale that `rule` gives; 0 where it gives none: a side of zeros, or a percentile that lies
/// among the zeros.
float ScaleFor(const SideStatistics& side, const ScaleRule& rule);

/// In a few words, for people: "max", "percentile 99.99, margin 1.05".
std::string Describe(const ScaleRule& rule);

/// What 448 * scale stands for, in the text of contracts: "max_abs" or "clip_limit".
std::string_view ClipLimitName(const ScaleRule& rule);

/// Key of reports, manifests and provenance files. Absent means the default: the maximum, margin 1.
inline constexpr std::string_view kScaleRuleKey = "scale_rule";
/// Writes the rule into `object`; the default leaves no trace.
void WriteScaleRule(const ScaleRule& rule, Json* object);
/// Errors: kCorrupt, naming the key, for unknown methods and values outside of their range.
Result<ScaleRule> ReadScaleRule(const JsonFields& object);
/// Errors: kInvalidArgument for values outside of their range, naming `where`.
Result<void> CheckScaleRule(const ScaleRule& rule, std::string_view where);

}  // namespace kv8
