// Arrays one after another in one piece of memory, at addresses that follow from their sizes.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/checked.h"

namespace kv8 {

/// Code that takes its arrays from an arena runs twice: without memory, to learn bytes(), then with
/// that much. So what is planned is what is taken.
class Arena {
 public:
  /// Without memory the addresses mean nothing.
  explicit Arena(std::byte* memory = nullptr,
                 std::int64_t capacity = std::numeric_limits<std::int64_t>::max())
      : memory_(reinterpret_cast<std::uintptr_t>(memory)), capacity_(capacity) {}

  /// Room for `count` elements, aligned as every kernel wants it. More than the capacity is a
  /// programmer's mistake: less was planned than is taken.
  template <class T>
  T* Take(std::int64_t count) {
    constexpr std::int64_t kAlignment = 256;
    T* const array = reinterpret_cast<T*>(memory_ + static_cast<std::uintptr_t>(bytes_));
    bytes_ += RoundUp(count * static_cast<std::int64_t>(sizeof(T)), kAlignment);
    assert(bytes_ <= capacity_);
    if (bytes_ > largest_) largest_ = bytes_;
    return array;
  }

  /// What comes next takes the place of what was taken since bytes() was `mark`.
  void Rewind(std::int64_t mark) { bytes_ = mark; }
  /// Goes on behind everything that was ever taken.
  void SkipToEnd() { bytes_ = largest_; }

  std::int64_t bytes() const { return bytes_; }

 private:
  std::uintptr_t memory_;
  std::int64_t capacity_;
  std::int64_t bytes_ = 0;
  std::int64_t largest_ = 0;
};

}  // namespace kv8
