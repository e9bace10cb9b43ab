// Integer arithmetic on untrusted numbers: overflow is a value, not a surprise.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace kv8 {

/// a * b, or nullopt when it does not fit.
template <std::integral T>
constexpr std::optional<T> CheckedMul(T a, T b) {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// a + b, or nullopt when it does not fit.
template <std::integral T>
constexpr std::optional<T> CheckedAdd(T a, T b) {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// `value` as To, or nullopt when To cannot hold it.
template <std::integral To, std::integral From>
constexpr std::optional<To> CheckedCast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

/// Smallest multiple of `step` that is at least `value`; both non-negative.
template <std::integral T>
constexpr T RoundUp(T value, T step) {
  return (value + step - 1) / step * step;
}

/// Number of `step`-sized pieces that cover `value`; both non-negative.
template <std::integral T>
constexpr T CeilDiv(T value, T step) {
  return (value + step - 1) / step;
}

}  // namespace kv8
