// A hash of a few integers.
#pragma once

#include <cstdint>

namespace kv8 {

inline constexpr std::size_t kIndexBytes = 48;  // roughly, of an entry in a hash table

/// The finalizer of splitmix64, over a running hash.
inline std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  std::uint64_t x = (hash ^ value) + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Two numbers as one.
inline std::uint64_t PairKey(std::uint32_t a, std::uint32_t b) {
  return std::uint64_t{a} << 32 | b;
}

}  // namespace kv8
