// Verdicts from pairs.
#pragma once

#include <string>
#include <vector>

#include "proof/comparison.h"
#include "proof/statistics.h"

namespace kv8 {

/// One item, right or wrong under each.
struct RightPair {
  bool a = false;
  bool b = false;
};

/// The smallest effect is a share of all pairs, all of it among those that A has right.
Verdict JudgeRight(std::string name, std::string what, const std::vector<RightPair>& pairs);

/// `higher_is_better`: which sign of b - a is a loss.
Verdict JudgeRatio(std::string name, std::string what, const std::vector<RatioPair>& pairs,
                   bool higher_is_better, std::uint64_t seed);

/// Its numbers as figures "<name>.<field>".
void AddFigures(const Verdict& verdict, Figures& figures);

}  // namespace kv8
