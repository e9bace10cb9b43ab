// Scratch for tests and benchmarks that call ops directly.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "ops/op_context.h"

namespace kv8::test {

/// What ContextOf hands out instead of plenty, where a test sets it.
inline const OpScratch* limited_scratch = nullptr;

struct FreeAligned {
  void operator()(std::byte* memory) const { AlignedAllocator<std::byte>().deallocate(memory, 0); }
};
using Memory = std::unique_ptr<std::byte, FreeAligned>;

/// A context whose scratch is enough for any op at the sizes that tests and benchmarks use, and
/// lasts as long as the process. For one thread at a time, as ops are.
inline OpContext ContextOf(ThreadPool& pool) {
  if (limited_scratch != nullptr) return {pool, *limited_scratch};
  constexpr ScratchSize kPlenty{.shared = std::int64_t{32} << 20,
                                .per_thread = std::int64_t{4} << 20};
  static std::map<int, Memory> of_threads;  // never touched where no op needs it
  Memory& held = of_threads[pool.size()];
  if (!held) {
    const auto bytes = static_cast<std::size_t>(kPlenty.bytes(pool.size()));
    held.reset(AlignedAllocator<std::byte>().allocate(bytes));
  }
  std::byte* const memory = held.get();
  return {pool, {Arena(memory, kPlenty.shared), memory + kPlenty.shared, kPlenty.per_thread}};
}

}  // namespace kv8::test
