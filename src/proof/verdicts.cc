#include "proof/verdicts.h"

#include <utility>

namespace kv8 {
namespace {

using Outcome = Verdict::Outcome;

double Share(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

std::string OutcomeText(Outcome outcome) {
  switch (outcome) {
    case Outcome::kWorse:
      return "B is worse";
    case Outcome::kBetter:
      return "B is better";
    case Outcome::kNotShown:
      return "no difference shown";
    case Outcome::kTooFewPairs:
      return "too few pairs that could show anything";
  }
  return "";
}

Verdict JudgeRight(std::string name, std::string what, const std::vector<RightPair>& pairs) {
  Verdict verdict{.name = std::move(name), .what = std::move(what), .test = "McNemar"};
  std::uint64_t right_a = 0;
  std::uint64_t right_b = 0;
  for (const RightPair& pair : pairs) {
    right_a += pair.a ? 1 : 0;
    right_b += pair.b ? 1 : 0;
    verdict.lost += pair.a && !pair.b ? 1 : 0;
    verdict.gained += pair.b && !pair.a ? 1 : 0;
  }
  verdict.pairs = pairs.size();
  verdict.a = Share(right_a, verdict.pairs);
  verdict.b = Share(right_b, verdict.pairs);
  verdict.difference = verdict.b - verdict.a;
  verdict.p = McNemarP(verdict.lost, verdict.gained);
  // B can only lose what A has right: a task that A cannot do shows nothing.
  if (const auto of_right = SmallestLossShare(right_a)) {
    verdict.smallest_effect = *of_right * verdict.a;
  }
  if (*verdict.p <= kSignificance) {
    verdict.outcome = verdict.lost > verdict.gained ? Outcome::kWorse : Outcome::kBetter;
  } else if (!verdict.smallest_effect) {
    verdict.outcome = Outcome::kTooFewPairs;
  }
  return verdict;
}

Verdict JudgeRatio(std::string name, std::string what, const std::vector<RatioPair>& pairs,
                   bool higher_is_better, std::uint64_t seed) {
  Verdict verdict{.name = std::move(name), .what = std::move(what), .test = "bootstrap"};
  RatioPair sum;
  for (const RatioPair& pair : pairs) {
    if (pair.a_count > 0 || pair.b_count > 0) ++verdict.pairs;
    sum.a += pair.a;
    sum.a_count += pair.a_count;
    sum.b += pair.b;
    sum.b_count += pair.b_count;
  }
  verdict.a = sum.a_count > 0 ? sum.a / sum.a_count : 0;
  verdict.b = sum.b_count > 0 ? sum.b / sum.b_count : 0;
  verdict.difference = verdict.b - verdict.a;
  const auto found = PairedBootstrap(pairs, seed);
  if (!found) {
    verdict.outcome = Outcome::kTooFewPairs;
    return verdict;
  }
  verdict.low = found->low;
  verdict.high = found->high;
  // Without any spread no size can be told.
  if (found->smallest_effect > 0) verdict.smallest_effect = found->smallest_effect;
  if (found->low > 0) verdict.outcome = higher_is_better ? Outcome::kBetter : Outcome::kWorse;
  if (found->high < 0) verdict.outcome = higher_is_better ? Outcome::kWorse : Outcome::kBetter;
  return verdict;
}

void AddFigures(const Verdict& verdict, Figures& figures) {
  const auto add = [&](const char* field, std::optional<double> value) {
    if (value) figures[verdict.name + "." + field] = *value;
  };
  add("a", verdict.a);
  add("b", verdict.b);
  add("difference", verdict.difference);
  add("low", verdict.low);
  add("high", verdict.high);
  add("p", verdict.p);
  add("smallest_effect", verdict.smallest_effect);
  add("pairs", static_cast<double>(verdict.pairs));
  if (verdict.outcome == Verdict::Outcome::kTooFewPairs) return;  // nothing was tested
  add("worse", verdict.outcome == Verdict::Outcome::kWorse ? 1 : 0);
}

}  // namespace kv8
