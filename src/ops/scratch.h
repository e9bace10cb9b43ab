// Memory that ops need only while they run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/aligned.h"
#include "device/arena.h"

namespace kv8 {

/// Bytes of scratch.
struct ScratchSize {
  std::int64_t shared = 0;      // taken by the thread that calls an op
  std::int64_t per_thread = 0;  // by each thread of the pool, the caller among them

  std::int64_t bytes(int threads) const { return shared + threads * per_thread; }
  /// Grows to what `other` needs too: calls follow each other, so they share one place.
  void Cover(const ScratchSize& other) {
    shared = std::max(shared, other.shared);
    per_thread = std::max(per_thread, other.per_thread);
  }
};

/// Where an op finds its scratch. Contents are whatever the last user left.
struct OpScratch {
  Arena shared{};  // an op takes from a copy and hands on the copy: its callees find the rest
  std::byte* threads = nullptr;
  std::int64_t per_thread = 0;

  /// All that belongs to one thread of the pool.
  Arena Thread(int thread) const { return Arena(threads + thread * per_thread, per_thread); }
};

/// Owns exactly size.bytes(threads), all of it touched: what a step takes does not depend on which
/// threads the system lets run.
class ScratchMemory {
 public:
  ScratchMemory(const ScratchSize& size, int threads)
      : size_(size), memory_(static_cast<std::size_t>(size.bytes(threads))) {}

  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size()); }
  OpScratch scratch() {
    return {Arena(memory_.data(), size_.shared), memory_.data() + size_.shared, size_.per_thread};
  }

 private:
  ScratchSize size_;
  AlignedVector<std::byte> memory_;
};

}  // namespace kv8
