#include "grammar/count_set.h"

#include <algorithm>

#include "grammar/program.h"

namespace kv8 {
namespace {

/// Adds a range that begins no earlier than the last one.
void Append(CountSet& counts, CountRange range) {
  if (!counts.empty() && range.first <= counts.back().last + 1) {
    counts.back().last = std::max(counts.back().last, range.last);
  } else {
    counts.push_back(range);
  }
}

/// Leaves out all counts above the lowest from `min` on.
void KeepLowest(CountSet& counts, std::uint32_t min) {
  const auto past = std::find_if(counts.begin(), counts.end(),
                                 [min](const CountRange& range) { return range.last >= min; });
  if (past == counts.end()) return;
  past->last = std::max(past->first, min);
  counts.erase(past + 1, counts.end());
}

}  // namespace

bool HasCount(const CountSet& counts, std::uint32_t count) {
  const auto range =
      std::lower_bound(counts.begin(), counts.end(), count,
                       [](const CountRange& r, std::uint32_t c) { return r.last < c; });
  return range != counts.end() && range->first <= count;
}

CountSet UnionOf(const CountSet& a, const CountSet& b, std::uint32_t min) {
  CountSet merged;
  merged.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
  CountSet all;
  for (const CountRange& range : merged) Append(all, range);
  KeepLowest(all, min);
  return all;
}

CountSet Besides(const CountSet& counts, const CountSet& known, std::uint32_t min) {
  CountSet left;
  std::size_t at = 0;
  for (CountRange range : counts) {
    while (at < known.size() && known[at].last < range.first && known[at].last < min) ++at;
    for (std::size_t i = at; i < known.size() && range.first <= range.last; ++i) {
      if (known[i].first > range.last) break;
      if (known[i].first > range.first) left.push_back({range.first, known[i].first - 1});
      const bool covers_rest = known[i].last >= min || known[i].last >= range.last;
      range.first = covers_rest ? kNoLimit : std::max(range.first, known[i].last + 1);
    }
    if (range.first <= range.last) left.push_back(range);
  }
  return left;
}

CountSet NextIteration(const CountSet& counts, std::uint32_t min, std::uint32_t max) {
  CountSet next;
  next.reserve(counts.size());
  for (const auto& [first, last] : counts) {
    if (first >= max) break;
    if (max == kNoLimit) {
      Append(next, {std::min(first + 1, min), std::min(last + 1, min)});
    } else {
      Append(next, {first + 1, std::min(last, max - 1) + 1});
    }
  }
  KeepLowest(next, min);
  return next;
}

}  // namespace kv8
