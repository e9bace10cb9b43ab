// Shows that ops take the scratch that was planned: no byte more, and not less.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <new>

#include "base/checked.h"
#include "support/op_scratch.h"

namespace kv8::test {

/// Memory that ends where a page begins that nobody may touch.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::int64_t bytes)
      : room_(RoundUp(bytes, kPage)), size_(static_cast<std::size_t>(room_ + kPage)) {
    void* const memory =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    ::mprotect(memory_ + room_, kPage, PROT_NONE);
    data_ = memory_ + room_ - bytes;
  }
  ~GuardedBytes() { ::munmap(memory_, size_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  std::byte* data() const { return data_; }

 private:
  static constexpr std::int64_t kPage = 4096;

  std::int64_t room_;
  std::size_t size_;
  std::byte* memory_ = nullptr;
  std::byte* data_ = nullptr;
};

/// Runs `calls`, which get their contexts from ContextOf with pools of one thread, in exactly
/// `size`.
template <class Calls>
void RunWithin(const ScratchSize& size, const Calls& calls) {
  const GuardedBytes shared(size.shared), thread(size.per_thread);
  const OpScratch limited{Arena(shared.data(), size.shared), thread.data(), size.per_thread};
  limited_scratch = &limited;
  calls();
  limited_scratch = nullptr;
}

/// `calls` need all of `size` and nothing else. That less is not enough is asserted by the arena,
/// so builds without assertions only see that more is not taken.
template <class Calls>
void ExpectExactScratch(const ScratchSize& size, const Calls& calls) {
  RunWithin(size, calls);
#ifndef NDEBUG
  constexpr std::int64_t kStep = 256;  // what an arena rounds to
  if (size.shared > 0) {
    const ScratchSize less{size.shared - kStep, size.per_thread};
    EXPECT_DEATH(RunWithin(less, calls), "capacity");
  }
  if (size.per_thread > 0) {
    const ScratchSize less{size.shared, size.per_thread - kStep};
    EXPECT_DEATH(RunWithin(less, calls), "capacity");
  }
#endif
}

}  // namespace kv8::test
