// Scratch for tests and benchmarks that call ops directly.
#pragma once

#include <cstddef>
#include <map>

#include "ops/op_context.h"

namespace kv8::test {

/// What ContextOf hands out instead of plenty, where a test sets it.
inline const OpScratch* limited_scratch = nullptr;

/// A context whose scratch is enough for any op at the sizes that tests and benchmarks use, and
/// lasts as long as the process. For one thread at a time, as ops are.
inline OpContext ContextOf(ThreadPool& pool) {
  if (limited_scratch != nullptr) return {pool, *limited_scratch};
  constexpr ScratchSize kPlenty{.shared = std::int64_t{32} << 20,
                                .per_thread = std::int64_t{4} << 20};
  static std::map<int, std::byte*> of_threads;  // never touched where no op needs it
  std::byte*& memory = of_threads[pool.size()];
  if (memory == nullptr) {
    const auto bytes = static_cast<std::size_t>(kPlenty.bytes(pool.size()));
    memory = AlignedAllocator<std::byte>().allocate(bytes);
  }
  return {pool, {Arena(memory, kPlenty.shared), memory + kPlenty.shared, kPlenty.per_thread}};
}

}  // namespace kv8::test
