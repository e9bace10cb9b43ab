#include "grammar/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kv8 {
namespace {

// What a range cannot hold: an empty class is no regular expression here, so it is left out.
using Ways = std::vector<std::string>;

std::string Join(const Ways& ways) {
  return fmt::format("(?:{})", fmt::join(ways, "|"));
}

std::string AnyDigits(std::size_t count) {
  return count == 0 ? "" : fmt::format("[0-9]{{{}}}", count);
}

/// Digit strings as long as `low` and `high`, from one to the other.
void AddSameLength(const std::string& prefix, const std::string& low, const std::string& high,
                   Ways& ways) {
  std::size_t same = 0;
  while (same < low.size() && low[same] == high[same]) ++same;
  const std::string start = prefix + low.substr(0, same);
  if (same == low.size()) return ways.push_back(start);
  const std::size_t rest = low.size() - same - 1;
  char first = low[same];
  char last = high[same];
  const std::string low_rest = low.substr(same + 1);
  const std::string high_rest = high.substr(same + 1);
  if (low_rest != std::string(rest, '0')) {
    AddSameLength(start + first, low_rest, std::string(rest, '9'), ways);
    ++first;
  }
  if (high_rest != std::string(rest, '9')) {
    AddSameLength(start + last, std::string(rest, '0'), high_rest, ways);
    --last;
  }
  if (first <= last)
    ways.push_back(fmt::format("{}[{}-{}]{}", start, first, last, AnyDigits(rest)));
}

/// Magnitudes from low to high; absent high: without a limit.
void AddMagnitudes(const std::string& sign, std::uint64_t low, std::optional<std::uint64_t> high,
                   Ways& ways) {
  std::string from = fmt::format("{}", low);
  const std::string to = high ? fmt::format("{}", *high) : "";
  while (!high || from.size() < to.size()) {
    AddSameLength(sign, from, std::string(from.size(), '9'), ways);
    if (!high) {
      ways.push_back(fmt::format("{}[1-9][0-9]{{{},99}}", sign, from.size()));
      return;
    }
    from = fmt::format("1{}", std::string(from.size(), '0'));
  }
  AddSameLength(sign, from, to, ways);
}

std::uint64_t Magnitude(std::int64_t value) {
  return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                   : static_cast<std::uint64_t>(value);
}

}  // namespace

std::string IntegersBetween(std::optional<std::int64_t> low, std::optional<std::int64_t> high) {
  Ways ways;
  if (!low || *low < 0) {
    std::optional<std::uint64_t> largest;
    if (low) largest = Magnitude(*low);
    AddMagnitudes("-", high && *high < 0 ? Magnitude(*high) : 1, largest, ways);
  }
  if (!high || *high >= 0) {
    std::optional<std::uint64_t> largest;
    if (high) largest = Magnitude(*high);
    AddMagnitudes("", low && *low > 0 ? Magnitude(*low) : 0, largest, ways);
  }
  return Join(ways);
}

std::string DecimalsBetween(std::optional<DecimalLimit> low, std::optional<DecimalLimit> high) {
  constexpr std::string_view kFraction = R"((?:\.[0-9]{1,100})?)";
  constexpr std::string_view kNonZero = R"(\.[0-9]{0,50}[1-9][0-9]{0,50})";
  constexpr std::string_view kZero = R"((?:\.0{1,100})?)";
  Ways ways;
  // A limit itself.
  if (low && low->included) ways.push_back(fmt::format("{}{}", low->value, kZero));
  if (high && high->included && !(low && low->value == high->value)) {
    ways.push_back(fmt::format("{}{}", high->value, kZero));
  }
  // By the whole number next to zero: those with it as integer part, strictly between the limits.
  const auto add = [&](const char* sign, std::optional<std::int64_t> from,
                       std::optional<std::int64_t> to) {
    // Integer parts strictly inside take any fraction; the limit on zero's side only a non-zero
    // one.
    if (from && to && *from >= *to) return;
    if (from) ways.push_back(fmt::format("{}{}{}", sign, *from, kNonZero));
    const std::int64_t first = from.value_or(-1) + 1;
    if (to && first >= *to) return;
    std::optional<std::int64_t> last;
    if (to) last = *to - 1;
    ways.push_back(fmt::format("{}{}{}", sign, IntegersBetween(first, last), kFraction));
  };
  if (!high || high->value > 0) {
    std::optional<std::int64_t> from;
    std::optional<std::int64_t> to;
    if (low && low->value >= 0) from = low->value;
    if (high) to = high->value;
    add("", from, to);
  }
  if (!low || low->value < 0) {
    std::optional<std::int64_t> from;
    std::optional<std::int64_t> to;
    if (high && high->value <= 0) from = -high->value;
    if (low) to = -low->value;
    add("-", from, to);
  }
  return Join(ways);
}

}  // namespace kv8
