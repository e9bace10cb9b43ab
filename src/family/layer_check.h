// Weights that config.json knows nothing of: a sign that it belongs to another checkpoint.
#pragma once

#include "family/checkpoint.h"
#include "kv8/error.h"

namespace kv8 {

/// Every tensor of a layer belongs to one of the layers in config.json, and n-gram memory to one
/// that has it. Without this, a shorter list of layers would run a part of the model and print
/// nonsense. Errors: kMismatch naming tensor, file and both numbers.
Result<void> CheckLayersAreKnown(const Checkpoint& checkpoint);

}  // namespace kv8
