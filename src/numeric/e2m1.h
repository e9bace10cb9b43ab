// E2M1, the 4-bit element of NVFP4: sign, 2 exponent bits with bias 1, 1 mantissa bit; neither
// infinity nor NaN. The values are 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
#pragma once

#include <bit>
#include <cstdint>

namespace kv8 {

inline constexpr float kE2M1Max = 6.0f;
inline constexpr std::uint8_t kE2M1MaxCode = 0x7;

/// The value of a code; only the low 4 bits count. Zeros keep their sign.
constexpr float DecodeE2M1(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x8u) << 28;
  const std::uint32_t magnitude = code & 0x7u;
  if (magnitude < 2) {
    const float value = static_cast<float>(magnitude) * 0.5f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 22) + 0x3F000000u));
}

/// Round to nearest even, saturating: magnitudes from 6 up, infinities and NaN included, give +-6.
constexpr std::uint8_t EncodeE2M1(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 28) & 0x8u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude >= 0x40C00000u) return sign | kE2M1MaxCode;
  if (magnitude < 0x3F800000u) {
    // Below 1: adding 2^22 leaves the rounded multiple of 0.5 in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p22f;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x4A800000u));
  }
  const std::uint32_t rounded = magnitude + 0x1FFFFFu + ((magnitude >> 22) & 1u);
  return static_cast<std::uint8_t>(sign | ((rounded - 0x3F000000u) >> 22));
}

}  // namespace kv8
