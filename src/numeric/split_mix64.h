// SplitMix64: a counter becomes 64 bits that look random.
#pragma once

#include <cstdint>

namespace kv8 {

/// What the counter is advanced by: the n-th number of stream s is SplitMix64(s + n * gamma).
inline constexpr std::uint64_t kSplitMixGamma = 0x9E3779B97F4A7C15;

constexpr std::uint64_t SplitMix64(std::uint64_t v) {
  v += kSplitMixGamma;
  v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9;
  v = (v ^ (v >> 27)) * 0x94D049BB133111EB;
  return v ^ (v >> 31);
}

}  // namespace kv8
