// Memory that begins at a cache line.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace kv8 {

inline constexpr std::size_t kCacheLine = 64;

template <class T>
struct AlignedAllocator {
  using value_type = T;

  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kCacheLine}));
  }
  void deallocate(T* memory, std::size_t) {
    ::operator delete (memory, std::align_val_t{kCacheLine});
  }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

/// For what kernels read and write: large pieces of the heap begin 16 bytes after a line, where
/// every second AVX vector would lie across two of them.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace kv8
