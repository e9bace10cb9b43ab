// Multiples of a number between two limits, as an automaton of remainders of decimal digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ordered_json.h"
#include "grammar/number_range.h"
#include "grammar/program.h"

namespace kv8 {

/// Remainders that one automaton tells apart, each with the digits that are left. Every step of at
/// most 300 stays below, and larger ones that have most factors in common with powers of ten.
inline constexpr std::size_t kMaxRemainders = 6000;

/// Most units of a number that a double holds as its decimal digits say.
inline constexpr std::int64_t kMaxUnits = 999'999'999'999'999;

/// What a number is a multiple of: count units of 10^-places.
struct DecimalStep {
  std::uint64_t count = 1;
  int places = 0;

  /// Of a number above 0 of at most kExactDigits digits; nullopt for others.
  static std::optional<DecimalStep> Of(const OrderedJson& value);
  /// The numbers that are multiples of both; nullopt when that has more digits.
  static std::optional<DecimalStep> OfBoth(DecimalStep a, DecimalStep b);
  /// The number that Of reads as this.
  OrderedJson ToJson() const;

  bool Divides(const DecimalLimit& value) const;
  /// The first unit that a lower limit allows, or kMaxUnits and more on either side of 0.
  std::int64_t FirstUnit(const DecimalLimit& limit) const;
};

/// Reads a multiple of `step` from low to high, which are counted in its units, then goes on at
/// `next`: without an exponent, with at most `places` digits after the point, zeros at whose end
/// may be left out. Matches nothing when there is no such multiple. nullopt above kMaxRemainders.
std::optional<Pc> AddMultiples(ProgramBuilder& builder, const DecimalStep& step, std::int64_t low,
                               std::int64_t high, Pc next);

}  // namespace kv8
