// What a scale can be at most: the largest magnitude that the weights can give, over 448.
#pragma once

#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/found_scales.h"

namespace kv8 {

/// An upper bound of |K| or |V| over all texts, from the weights alone:
///   |K| <= sqrt(head_dim) * max |k_gain|                      norm, then rotation
///   |V| <= sqrt(hidden) * max over rows j of |w_j * gain|_2   gain: per column the largest of the
///                                                             streams' norms before the layer
/// Errors: those of Checkpoint::Get for an absent tensor.
Result<double> MagnitudeBound(const Checkpoint& checkpoint, const ScaleSlot& slot);

/// Errors: kMismatch, naming tensor, file and both numbers, for a scale that no measurement on
/// this checkpoint can have given: larger than MagnitudeBound / 448, with 1/64 for the rounding of
/// other engines. Above it, ordinary values would come near the smallest code, and then to 0.
Result<void> CheckScaleBounds(const Checkpoint& checkpoint, const FoundScales& found);

}  // namespace kv8
