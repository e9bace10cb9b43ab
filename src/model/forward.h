// The order of a forward pass, for every device. Source: docs/spec/numerics.md.
#pragma once

#include "model/steps.h"

namespace kv8 {

/// The target over the pass's rows: residual streams after the last layer.
Result<void> RunTarget(Steps& steps, const ModelWeights& weights);

/// The draft head over the pass's rows, which have the target's streams and the next ids: the
/// draft's streams. Requires weights.mtp.
Result<void> RunDraft(Steps& steps, const ModelWeights& weights);

/// Logits of the pass's rows from their streams.
Result<void> RunHead(Steps& steps, const HyperConnectionWeights& mixer, const Weight& head);

}  // namespace kv8
