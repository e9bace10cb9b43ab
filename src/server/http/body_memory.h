// What the bodies of all requests may take together.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace kv8 {

/// Counts bytes. Thread-safe.
class BodyMemory {
 public:
  explicit BodyMemory(std::size_t limit) : limit_(limit) {}

  /// Bytes of one body, until they are given back by its end.
  class Share {
   public:
    explicit Share(BodyMemory& memory) : memory_(&memory) {}
    Share(Share&& other) noexcept
        : memory_(other.memory_), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&&) = delete;
    ~Share() { memory_->used_ -= bytes_; }

    /// False, and no change, when the limit leaves no room for a body of `bytes`.
    bool GrowTo(std::size_t bytes) {
      if (bytes <= bytes_) return true;
      const std::size_t more = bytes - bytes_;
      if (memory_->used_.fetch_add(more) + more > memory_->limit_) {
        memory_->used_ -= more;
        return false;
      }
      bytes_ = bytes;
      return true;
    }

   private:
    BodyMemory* memory_;
    std::size_t bytes_ = 0;
  };

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

}  // namespace kv8
