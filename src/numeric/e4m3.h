// E4M3 ("fn" flavour: no infinity, NaN = S.1111.111): the element code of the 8-bit K/V cache.
// Source: docs/spec/numerics.md; oracle for every backend.
#pragma once

#include <bit>
#include <cstdint>

namespace kv8 {

inline constexpr float kE4M3Max = 448.0f;
inline constexpr std::uint8_t kE4M3MaxCode = 0x7E;
inline constexpr std::uint8_t kE4M3NaNCode = 0x7F;

/// The value of a code. Both NaN codes give the canonical quiet NaN; zeros keep their sign.
constexpr float DecodeE4M3(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  const std::uint32_t exponent = (code >> 3) & 0xFu;
  const std::uint32_t mantissa = code & 0x7u;
  if ((code & 0x7Fu) == kE4M3NaNCode) return std::bit_cast<float>(0x7FC00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

/// Round to nearest even, saturating: magnitudes above 448, infinities included, give +-448.
/// NaN stays NaN and keeps its sign (0x7F or 0xFF).
constexpr std::uint8_t EncodeE4M3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | kE4M3NaNCode;
  if (magnitude >= 0x43E00000u) return sign | kE4M3MaxCode;
  if (magnitude < 0x3C800000u) {
    // Below 2^-6: adding 2^14 leaves the rounded multiple of 2^-9 in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000u));
  }
  const std::uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return static_cast<std::uint8_t>(sign | ((rounded - 0x3C000000u) >> 20));
}

/// True when storing real value `x` with `scale` clips it: |x / scale| > 448. NaN does not count.
/// The division is FP32, as in the store rule.
constexpr bool SaturatesE4M3(float x, float scale) {
  const float q = x / scale;
  return q > kE4M3Max || q < -kE4M3Max;
}

/// The largest magnitude that encodes as zero: half the smallest code, which is a tie.
inline constexpr float kE4M3FlushMax = 0x1p-10f;

/// True when storing real value `x` with `scale` makes it 0 though it is not. NaN does not count.
constexpr bool FlushesE4M3(float x, float scale) {
  const float q = x / scale;
  return x != 0 && q >= -kE4M3FlushMax && q <= kE4M3FlushMax;
}

/// The store rule of the cache: FP32 divide, then EncodeE4M3.
constexpr std::uint8_t QuantizeE4M3(float x, float scale) {
  return EncodeE4M3(x / scale);
}

}  // namespace kv8
