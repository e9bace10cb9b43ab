// Memory by owner, as reports have it.
#pragma once

#include "base/json.h"
#include "kv8/engine.h"

namespace kv8 {

/// The `memory` object of an output: bytes by owner, and pages.
Json MemoryJson(const MemoryPlan& memory);

}  // namespace kv8
