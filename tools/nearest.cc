#include "nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kv8 {
namespace {

/// Levenshtein's distance.
std::size_t Edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestWord = 64;   // nothing that a user mistyped is longer
  constexpr std::size_t kShortestStart = 4;  // "--a" begins too many
  std::string nearest;
  if (word.size() > kLongestWord) return nearest;
  std::size_t fewest = word.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    if (word.size() >= kShortestStart && candidate.starts_with(word)) return candidate;
    const std::size_t edits = Edits(word, candidate);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace kv8
