// Numbers between two limits, as regular expressions over their decimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kv8 {

/// Integers from `low` to `high`, both included; absent: without a limit on that side. At least one
/// is there, and low <= high. No leading zeros, no minus before 0, at most 100 digits.
std::string IntegersBetween(std::optional<std::int64_t> low, std::optional<std::int64_t> high);

/// A limit of a range of decimals.
struct DecimalLimit {
  std::int64_t value = 0;
  bool included = true;
};

/// Decimals without an exponent between two whole limits.
std::string DecimalsBetween(std::optional<DecimalLimit> low, std::optional<DecimalLimit> high);

}  // namespace kv8
