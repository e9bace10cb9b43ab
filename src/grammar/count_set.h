// Sets of loop counts.
#pragma once

#include <cstdint>
#include <vector>

namespace kv8 {

struct CountRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  // included

  auto operator<=>(const CountRange&) const = default;
};

/// How many iterations of one loop may have begun: ascending, disjoint, not adjacent.
///
/// From a loop's `min` on a lower count can do whatever a higher one can: it may leave too, and has
/// more iterations left. So sets keep only the lowest of those counts, which changes nothing about
/// the texts and is what makes them small.
using CountSet = std::vector<CountRange>;

bool HasCount(const CountSet& counts, std::uint32_t count);

/// Both, for a loop with this `min`.
CountSet UnionOf(const CountSet& a, const CountSet& b, std::uint32_t min);

/// What `counts` allow and `known` do not, for a loop with this `min`.
CountSet Besides(const CountSet& counts, const CountSet& known, std::uint32_t min);

/// After one more iteration has begun, of at most `max`; kNoLimit: counts stop at `min`.
CountSet NextIteration(const CountSet& counts, std::uint32_t min, std::uint32_t max);

}  // namespace kv8
