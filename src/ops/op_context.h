// What every op call gets besides its operands.
#pragma once

#include "base/thread_pool.h"

namespace kv8 {

/// Ops never allocate from it, own nothing, and give the same bits for every pool size.
struct OpContext {
  ThreadPool& pool;
};

}  // namespace kv8
