// What every op call gets besides its operands.
#pragma once

#include "base/thread_pool.h"
#include "ops/scratch.h"

namespace kv8 {

/// Ops own nothing and give the same bits for every pool size.
struct OpContext {
  ThreadPool& pool;
  OpScratch scratch = {};  // at least what OpTable::scratch says for the call
};

}  // namespace kv8
