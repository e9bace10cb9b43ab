// How a token is drawn from logits, in integers: every device chooses the same one, whatever the
// order in which it adds. Compiled by the host's compiler, by nvcc and by NVRTC, so it includes
// nothing but fixed-width integers.
//
//   distance(t) = floor((largest logit - logit(t)) * scale), in FP32
//                 how many octaves less likely than the best, in units of 2^-26
//   weight(t)   = 2^39 * 2^-(distance(t) / 2^26), rounded; 0 from 39 octaves on
//   order         larger logit first; of equal ones, the lower token first
//   kept          the shortest of three leading sets: the first top_k; the fewest that reach the
//                 share top_p of the weight of the first top_k; those no farther than max_distance
//   chosen        the first at which the sum of weights exceeds random / 2^64 of the kept ones'
//
// FP32 rounds distances to 2^-24 of themselves, so that weights are those of an exact softmax to
// some 2^-19, and the best token's to the bit.
#pragma once

#include <cstdint>

namespace kv8 {

/// What a request's options and one random number come to.
struct ChoiceRule {
  std::uint64_t top_p;         // a fraction of 2^64; 0: all
  std::uint64_t random;        // 64 random bits
  float scale;                 // 2^26 / (temperature * ln 2), finite; 0: take the best token
  std::int32_t top_k;          // 0: all
  std::uint32_t max_distance;  // of min-p; kFarthest: all

  /// Whether top_k leaves out any of so many tokens.
  constexpr bool CutsAt(std::uint64_t tokens) const {
    return top_k > 0 && static_cast<std::uint64_t>(top_k) < tokens;
  }
};

inline constexpr int kDistanceBits = 26;  // of an octave
inline constexpr int kOctaves = 39;
inline constexpr int kLargestWeightBits = 39;  // 2^24 tokens of this weight have a sum
/// Of a token that is never drawn.
inline constexpr std::uint32_t kFarthest = std::uint32_t{kOctaves} << kDistanceBits;

/// kFarthest also when `logit` is NaN or -infinity.
inline constexpr std::uint32_t TokenDistance(float largest, float logit, float scale) {
  const float distance = (largest - logit) * scale;
  return distance < static_cast<float>(kFarthest) ? static_cast<std::uint32_t>(distance)
                                                  : kFarthest;
}

/// The upper half of a product.
inline constexpr std::uint32_t UpperProduct(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
}

/// At least 1 for a distance below kFarthest. 2^-t is 1 - t * g(t); g by Horner's rule, its
/// coefficients fitted to 4e-9, in units of 2^-32.
inline constexpr std::uint64_t TokenWeight(std::uint32_t distance) {
  if (distance >= kFarthest) return 0;
  const std::uint32_t t = distance << (32 - kDistanceBits);
  std::uint32_t g = 466041u;
  g = 5469519u - UpperProduct(g, t);
  g = 41137671u - UpperProduct(g, t);
  g = 238329632u - UpperProduct(g, t);
  g = 1031755794u - UpperProduct(g, t);
  g = 2977044004u - UpperProduct(g, t);
  const std::uint32_t power = 0x80000000u - (UpperProduct(g, t) >> 1);  // 2^31 * 2^-t
  return (std::uint64_t{power} << (kLargestWeightBits - 31)) >> (distance >> kDistanceBits);
}

/// fraction / 2^64 of `whole`, rounded down: less than it.
inline constexpr std::uint64_t ShareOf(std::uint64_t whole, std::uint64_t fraction) {
  const std::uint64_t a0 = whole & 0xFFFFFFFFu, a1 = whole >> 32;
  const std::uint64_t b0 = fraction & 0xFFFFFFFFu, b1 = fraction >> 32;
  const std::uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);
  return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & 0xFFFFFFFFu)) >> 32);
}

/// What the leading tokens must weigh to reach the share top_p: at least one of them is needed.
inline constexpr std::uint64_t WeightToReach(std::uint64_t whole, std::uint64_t top_p) {
  if (top_p == 0) return whole;
  const std::uint64_t share = ShareOf(whole, top_p);
  return share == 0 ? 1 : share;
}

}  // namespace kv8
