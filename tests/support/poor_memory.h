// Memory that runs out where a test wants it to. Replaces operator new of the test's program.
#pragma once

#include <cstdint>
#include <new>

namespace kv8::test {

/// Counts what this thread allocates, and throws std::bad_alloc at number `fails_at` and from then
/// on.
class PoorMemory {
 public:
  explicit PoorMemory(std::int64_t fails_at);
  ~PoorMemory();
  PoorMemory(const PoorMemory&) = delete;
  PoorMemory& operator=(const PoorMemory&) = delete;
};

/// Whether `call` throws std::bad_alloc when memory runs out at allocation number `fails_at`.
template <class Call>
bool RunsOutOfMemory(std::int64_t fails_at, const Call& call) {
  const PoorMemory poor(fails_at);
  try {
    call();
    return false;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

}  // namespace kv8::test
