#include "scalepack/compared_rules.h"

#include <algorithm>

namespace kv8 {

std::vector<ScaleRule> ComparedRules(const ScaleRule& chosen) {
  std::vector<ScaleRule> rules;
  for (const double margin : {1.0, 1.05, 1.1}) rules.push_back({.margin = margin});
  for (const double percentile : {99.999, 99.99, 99.9}) {
    rules.push_back({.method = ScaleMethod::kPercentile, .percentile = percentile});
  }
  rules.push_back({.method = ScaleMethod::kMse});
  if (std::ranges::find(rules, chosen) == rules.end()) rules.push_back(chosen);
  return rules;
}

std::vector<RuleOutcome> CompareRules(const SideStatistics& fitted, const SideStatistics& held_out,
                                      const ScaleRule& chosen) {
  std::vector<RuleOutcome> outcomes;
  for (const ScaleRule& rule : ComparedRules(chosen)) {
    RuleOutcome outcome{.rule = rule, .scale = ScaleFor(fitted, rule)};
    if (outcome.scale > 0) {
      outcome.clipped = CountClipped(held_out, outcome.scale);
      outcome.relative_error = EstimateRounding(held_out, outcome.scale).relative();
    }
    outcomes.push_back(outcome);
  }
  return outcomes;
}

std::vector<RuleTotal> CompareRules(const CalibrationReport& report) {
  std::vector<RuleTotal> totals;
  for (const ScaleRule& rule : ComparedRules(report.rule)) totals.push_back({.rule = rule});
  const auto sides = 2 * static_cast<double>(report.layers.size());
  const auto add = [&](const SideStatistics& fitted, const SideStatistics& held_out) {
    const auto outcomes = CompareRules(fitted, held_out, report.rule);
    for (std::size_t i = 0; i < totals.size(); ++i) {
      totals[i].clipped.at_least += outcomes[i].clipped.at_least;
      totals[i].clipped.at_most += outcomes[i].clipped.at_most;
      totals[i].relative_error += outcomes[i].relative_error / sides;
      totals[i].worst_relative_error =
          std::max(totals[i].worst_relative_error, outcomes[i].relative_error);
    }
  };
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerStatistics& held_out = report.held_out->measured.layers[i];
    add(report.layers[i].k, held_out.k);
    add(report.layers[i].v, held_out.v);
  }
  return totals;
}

}  // namespace kv8
