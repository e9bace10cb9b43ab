// Tables beside the verdicts: where two configurations differ. They decide nothing alone.
#pragma once

#include <vector>

#include "base/json.h"
#include "proof/comparison.h"

namespace kv8 {

/// `by_position` and `by_category`: agreement of the likeliest token, KL divergence (see
/// KlLowerBound; of the positions that were kept) and, by category, cost under both.
void AddScoreDiagnostics(const std::vector<EvaluationItem>& items, const ArmScores& a,
                         const ArmScores& b, Json& to);

/// `retrieval` by context and depth; `acceptance_by_draft`, `acceptance_by_category` and
/// `acceptance_by_context` under both.
void AddOutputDiagnostics(const std::vector<EvaluationItem>& items, const ArmOutputs& a,
                          const ArmOutputs& b, Json& to);

/// What the cache of an arm clipped and took for 0, by layer.
Json LossRows(const ArmResults& arm);

}  // namespace kv8
