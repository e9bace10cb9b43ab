// Scale rules side by side, on values that no scale was fitted to.
#pragma once

#include <vector>

#include "scalepack/calibration_report.h"
#include "scalepack/rounding_error.h"

namespace kv8 {

/// What one rule does to held-out values.
struct RuleOutcome {
  ScaleRule rule;
  float scale = 0;  // 0: the rule gives none, and the rest says nothing
  ClippedCount clipped;
  double relative_error = 0;  // L2
};

/// The maximum with margins 1, 1.05 and 1.1, percentiles, the least error; then `chosen` if it is
/// none of them.
std::vector<ScaleRule> ComparedRules(const ScaleRule& chosen);

/// One outcome per compared rule. Scales follow from `fitted`.
std::vector<RuleOutcome> CompareRules(const SideStatistics& fitted, const SideStatistics& held_out,
                                      const ScaleRule& chosen);

/// What one rule does to all held-out values.
struct RuleTotal {
  ScaleRule rule;
  ClippedCount clipped;             // over all sides
  double relative_error = 0;        // mean over sides
  double worst_relative_error = 0;  // of a side
};

/// One total per compared rule. The report must have held-out documents.
std::vector<RuleTotal> CompareRules(const CalibrationReport& report);

}  // namespace kv8
