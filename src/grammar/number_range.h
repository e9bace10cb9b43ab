// Numbers between two limits, as regular expressions over their decimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kv8 {

/// Integers from `low` to `high`, both included; absent: without a limit on that side. At least one
/// is there, and low <= high. No leading zeros, no minus before 0, at most 100 digits.
std::string IntegersBetween(std::optional<std::int64_t> low, std::optional<std::int64_t> high);

std::uint64_t Magnitude(std::int64_t value);

/// A limit of a range of decimals, of at most kExactDigits.
struct DecimalLimit {
  bool negative = false;
  std::int64_t whole = 0;  // of the magnitude
  std::string fraction;    // digits after the point, the last of them not 0
  bool included = true;

  /// The shortest decimal that stands for `value`; nullopt when that has more digits.
  static std::optional<DecimalLimit> Of(double value, bool included);
};

/// Different decimals of so many digits are different doubles, so that whoever reads a number as a
/// double finds it on the right side of a limit.
inline constexpr std::size_t kExactDigits = 15;

/// Decimals without an exponent between two limits, one of which is there; empty when there are
/// none. Next to a limit they have at most kExactDigits.
std::string DecimalsBetween(const std::optional<DecimalLimit>& low,
                            const std::optional<DecimalLimit>& high);

}  // namespace kv8
