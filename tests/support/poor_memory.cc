#include "support/poor_memory.h"

#include <cstddef>
#include <cstdlib>
#include <limits>

namespace {

constexpr std::int64_t kRich = std::numeric_limits<std::int64_t>::max();
thread_local std::int64_t allocations_left = kRich;

}  // namespace

void* operator new(std::size_t bytes) {
  if (allocations_left != kRich && allocations_left-- <= 0) {
    allocations_left = 0;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

namespace kv8::test {

PoorMemory::PoorMemory(std::int64_t fails_at) {
  allocations_left = fails_at;
}

PoorMemory::~PoorMemory() {
  allocations_left = kRich;
}

}  // namespace kv8::test
