// Attention, stored values and scales, as tables of the report.
#pragma once

#include "proof/attention.h"
#include "proof/comparison.h"
#include "scalepack/kv_scales.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// `attention` by layer (`jaccard` and `recall` null where no row chooses); `stored` by layer and
/// side: values of each head clipped by margin, and how many values have which code. Figures:
/// `attention.jaccard_least`, `attention.recall_least`, `attention.cosine_least`,
/// `attention.relative_l2_most`, and `margin.M_clipped` for each of kMargins.
void AddAttention(const AttentionResult& result, Comparison& to);

/// K and V of each layer under A and B and their ratio, the largest change first.
Json ScaleRows(const ModelSpec& spec, const KvScales& a, const KvScales& b);

}  // namespace kv8
