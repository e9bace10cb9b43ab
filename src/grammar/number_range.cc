#include "grammar/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace kv8 {
namespace {

// What a range cannot hold: an empty class is no regular expression here, so it is left out.
using Ways = std::vector<std::string>;

std::string Join(const Ways& ways) {
  return fmt::format("(?:{})", fmt::join(ways, "|"));
}

/// Digits that are given, then one from first to last, then so many of any.
struct DigitRun {
  std::string prefix;
  char first = '0';
  char last = '9';
  std::size_t rest = 0;
};

/// Digit strings as long as `low` and `high`, from one to the other.
void AddSameLength(const std::string& prefix, const std::string& low, const std::string& high,
                   std::vector<DigitRun>& ways) {
  std::size_t same = 0;
  while (same + 1 < low.size() && low[same] == high[same]) ++same;
  const std::string start = prefix + low.substr(0, same);
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
  if (first <= last) ways.push_back({start, first, last, rest});
}

void AddSameLength(const std::string& sign, const std::string& low, const std::string& high,
                   Ways& ways) {
  std::vector<DigitRun> digits;
  AddSameLength("", low, high, digits);
  for (const auto& [prefix, first, last, rest] : digits) {
    ways.push_back(fmt::format("{}{}[{}-{}][0-9]{{{}}}", sign, prefix, first, last, rest));
  }
}

/// Digits after a point, whose zeros at the end may be left out, but for the first one.
std::string AsFraction(const DigitRun& digits) {
  std::string text = fmt::format("[0-9]{{0,{}}}", digits.rest);
  bool all_zeros = true;
  const auto add = [&](const std::string& choice, bool zero, bool is_first) {
    text = all_zeros && zero && !is_first ? fmt::format("(?:{}{})?", choice, text) : choice + text;
    all_zeros = all_zeros && zero;
  };
  add(fmt::format("[{}-{}]", digits.first, digits.last), digits.first == '0',
      digits.prefix.empty());
  for (std::size_t i = digits.prefix.size(); i > 0; --i) {
    add(std::string(1, digits.prefix[i - 1]), digits.prefix[i - 1] == '0', i == 1);
  }
  return text;
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

}  // namespace

std::uint64_t Magnitude(std::int64_t value) {
  return value < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                   : static_cast<std::uint64_t>(value);
}

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

std::optional<DecimalLimit> DecimalLimit::Of(double value, bool included) {
  std::array<char, 512> text;
  const auto [end, problem] = std::to_chars(text.data(), text.data() + text.size(), std::abs(value),
                                            std::chars_format::fixed);
  if (problem != std::errc()) return std::nullopt;
  const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.data()));
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::string_view fraction = digits.substr(std::min(point + 1, digits.size()));
  if (point + fraction.size() > kExactDigits) return std::nullopt;
  DecimalLimit limit{
      .negative = value < 0, .fraction = std::string(fraction), .included = included};
  std::from_chars(digits.data(), digits.data() + point, limit.whole);
  return limit;
}

namespace {

std::size_t FractionDigits(std::int64_t whole) {
  return kExactDigits - fmt::format("{}", whole).size();
}

/// So many digits after the point, as a whole number.
std::uint64_t AsCount(const std::string& fraction, std::size_t digits) {
  const std::string text = fraction + std::string(digits - fraction.size(), '0');
  std::uint64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

/// Decimals with this integer part, from one limit's fraction to the other's.
void AddWithWhole(const std::string& sign, std::int64_t whole, const DecimalLimit* low,
                  const DecimalLimit* high, Ways& ways) {
  const std::size_t digits = FractionDigits(whole);
  std::uint64_t end = 1;
  for (std::size_t i = 0; i < digits; ++i) end *= 10;
  const std::uint64_t from =
      low == nullptr ? 0 : AsCount(low->fraction, digits) + (low->included ? 0 : 1);
  if (high != nullptr) end = AsCount(high->fraction, digits) + (high->included ? 1 : 0);
  if (from >= end) return;
  std::string text = fmt::format("{}{}", sign, whole);
  if (digits > 0) {
    std::vector<DigitRun> fractions;
    AddSameLength("", fmt::format("{:0{}}", from, digits), fmt::format("{:0{}}", end - 1, digits),
                  fractions);
    Ways choices;
    for (const DigitRun& fraction : fractions) choices.push_back(AsFraction(fraction));
    text += fmt::format("(?:\\.{}){}", Join(choices), from == 0 ? "?" : "");
  }
  ways.push_back(std::move(text));
}

/// Decimals of one sign by their magnitudes; null high: without a limit.
void AddDecimals(const std::string& sign, const DecimalLimit& low, const DecimalLimit* high,
                 Ways& ways) {
  if (high != nullptr && high->whole < low.whole) return;
  if (high != nullptr && high->whole == low.whole) {
    return AddWithWhole(sign, low.whole, &low, high, ways);
  }
  AddWithWhole(sign, low.whole, &low, nullptr, ways);
  std::optional<std::int64_t> last;
  if (high != nullptr) last = high->whole - 1;
  const std::size_t digits = last ? FractionDigits(high->whole) : kExactDigits;
  if (!last || low.whole < *last) {
    const std::string fraction = digits > 0 ? fmt::format("(?:\\.[0-9]{{1,{}}})?", digits) : "";
    ways.push_back(sign + IntegersBetween(low.whole + 1, last) + fraction);
  }
  if (high != nullptr) AddWithWhole(sign, high->whole, nullptr, high, ways);
}

}  // namespace

std::string DecimalsBetween(const std::optional<DecimalLimit>& low,
                            const std::optional<DecimalLimit>& high) {
  Ways ways;
  if (!high || !high->negative) {
    const bool above_zero = low && !low->negative;
    AddDecimals("", above_zero ? *low : DecimalLimit{}, high ? &*high : nullptr, ways);
  }
  if (!low || low->negative) {
    const bool below_zero = high && high->negative;
    AddDecimals("-", below_zero ? *high : DecimalLimit{.included = false}, low ? &*low : nullptr,
                ways);
  }
  return ways.empty() ? "" : Join(ways);
}

}  // namespace kv8
