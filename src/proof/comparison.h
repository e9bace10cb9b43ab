// Two configurations compared, item by item.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "proof/gates.h"
#include "proof/measurements.h"

namespace kv8 {

/// What is there of one configuration; a measurement that failed is absent.
struct ArmResults {
  std::optional<ArmScores> scores;
  std::optional<ArmOutputs> outputs;
  std::optional<ScheduleResult> schedule;
  std::string served_model;  // of an arm that a server runs
};

/// A question that pairs of items answer. "Not shown" is the answer that too few pairs give too: it
/// never means that A and B are equal.
struct Verdict {
  enum class Outcome { kWorse, kBetter, kNotShown, kTooFewPairs };
  std::string name;  // key of its figures
  std::string what;  // what was counted, for people
  std::string test;  // "McNemar" or "bootstrap"
  Outcome outcome = Outcome::kNotShown;
  std::uint64_t pairs = 0;
  double a = 0;  // under A; a share, or a mean
  double b = 0;
  double difference = 0;                  // b - a
  std::optional<double> low, high;        // 95% interval, of the bootstrap
  std::optional<double> p;                // of McNemar's test
  std::optional<double> smallest_effect;  // size of the difference that 80% of runs would show
  std::uint64_t lost = 0;                 // McNemar: right under A alone
  std::uint64_t gained = 0;               // right under B alone
};

/// "B is worse", "B is better", "no difference shown", "too few pairs that could show anything".
std::string OutcomeText(Verdict::Outcome outcome);

struct Comparison {
  std::vector<Verdict> verdicts;
  Figures figures;
  Json diagnostics = Json::object();  // decide nothing alone
};

/// What can be compared of what is there. `again`: A for a second time. Every result has as many
/// entries as `items` call for.
Comparison Compare(const std::vector<EvaluationItem>& items, const ArmResults& a,
                   const ArmResults& again, const ArmResults& b, std::uint64_t seed);

/// "0-255", "256-1023", ... for positions and lengths, growing by 4.
std::string LengthBucket(std::int64_t length);

}  // namespace kv8
