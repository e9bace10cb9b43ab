// The stored constants and table pieces of the n-gram memory against the derived ones.
#pragma once

#include "family/checkpoint.h"
#include "kv8/error.h"

namespace kv8 {

/// For every PLE layer: the three I64 buffers equal the derived constants (a wrong seed or
/// vocabulary would read wrong rows without any other sign), and shard_0 ... shard_{parts-1} are
/// equal pieces of the padded table.
/// Errors: kNotFound, kMismatch naming tensor, index and both numbers.
Result<void> CheckPleTensors(const Checkpoint& checkpoint);

}  // namespace kv8
