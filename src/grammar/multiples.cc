#include "grammar/multiples.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"

namespace kv8 {
namespace {

constexpr int kMaxDigits = 19;  // of 64 bits

std::uint64_t PowerOfTen(int digits) {
  std::uint64_t power = 1;
  for (int i = 0; i < digits; ++i) power *= 10;
  return power;
}

class MultipleAdder {
 public:
  MultipleAdder(ProgramBuilder& builder, const DecimalStep& step, Pc next)
      : builder_(builder), step_(step), next_(next) {}

  /// Multiples from low to high; nullopt when there is none.
  std::optional<Pc> Add(std::uint64_t low, std::uint64_t high) {
    std::optional<Pc> entry;
    // By length, as the first of several whole digits is not 0.
    for (int length = step_.places + 1; length <= kMaxDigits; ++length) {
      const std::uint64_t first = length == step_.places + 1 ? 0 : PowerOfTen(length - 1);
      const std::uint64_t last = PowerOfTen(length) - 1;
      if (high < first || low > last) continue;
      if (const auto way = Digits(length, 0, std::max(low, first), std::min(high, last))) {
        entry = entry ? builder_.Either(*way, *entry) : *way;
      }
    }
    return entry;
  }

  bool full() const { return remainders_ > kMaxRemainders; }

 private:
  /// Reads the last `rest` digits of a number: those from low to high that leave the remainder
  /// `need`; nullopt when there are none.
  std::optional<Pc> Digits(int rest, std::uint64_t need, std::uint64_t low, std::uint64_t high) {
    const std::uint64_t count = step_.count;
    const bool any = low <= high && low + (need + count - low % count) % count <= high;
    if (!any || full()) return std::nullopt;
    if (rest == 0) return next_;
    const bool unlimited = low == 0 && high == PowerOfTen(rest) - 1;
    const std::pair key(rest, need);
    if (const auto known = known_.find(key); unlimited && known != known_.end()) {
      return known->second;
    }
    ++remainders_;
    Pc entry = AnyDigit(rest, need, low, high);
    if (rest == step_.places) entry = builder_.Literal(".", entry);
    const bool may_end = rest <= step_.places && need == 0 && low == 0;
    if (may_end) entry = builder_.Either(next_, entry);
    if (unlimited) known_.emplace(key, entry);
    return entry;
  }

  /// The digits that lead to the same place are read as one.
  Pc AnyDigit(int rest, std::uint64_t need, std::uint64_t low, std::uint64_t high) {
    const std::uint64_t count = step_.count;
    const std::uint64_t block = PowerOfTen(rest - 1);
    std::map<Pc, ByteSet> ways;
    for (std::uint64_t digit = 0; digit <= 9; ++digit) {
      const std::uint64_t from = digit * block;
      if (high < from || low > from + block - 1) continue;
      const auto way = Digits(rest - 1, (need + count - from % count) % count,
                              std::max(low, from) - from, std::min(high - from, block - 1));
      if (way) ways[*way].set('0' + digit);
    }
    std::optional<Pc> entry;
    for (const auto& [way, digits] : ways) {
      const Pc read = builder_.Bytes(digits, way);
      entry = entry ? builder_.Either(read, *entry) : read;
    }
    return entry ? *entry : builder_.Nothing();
  }

  ProgramBuilder& builder_;
  const DecimalStep& step_;
  Pc next_;
  std::map<std::pair<int, std::uint64_t>, Pc> known_;  // without limits
  std::size_t remainders_ = 0;
};

}  // namespace

std::optional<DecimalStep> DecimalStep::Of(const OrderedJson& value) {
  const auto decimal = DecimalLimit::Of(value.get<double>(), true);
  if (!decimal || decimal->negative) return std::nullopt;
  DecimalStep step{.count = static_cast<std::uint64_t>(decimal->whole),
                   .places = static_cast<int>(decimal->fraction.size())};
  for (const char digit : decimal->fraction) {
    step.count = step.count * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  if (step.count == 0) return std::nullopt;
  return step;
}

std::optional<DecimalStep> DecimalStep::OfBoth(DecimalStep a, DecimalStep b) {
  // Factors of ten first, so that what is compared stays small.
  const std::uint64_t most = PowerOfTen(static_cast<int>(kExactDigits));
  for (DecimalStep* step : {&a, &b}) {
    for (; step->places < std::max(a.places, b.places); ++step->places) {
      if (step->count >= most) return std::nullopt;
      step->count *= 10;
    }
  }
  const auto common = CheckedMul(a.count, b.count / std::gcd(a.count, b.count));
  if (!common) return std::nullopt;
  DecimalStep both{.count = *common, .places = a.places};
  for (; both.places > 0 && both.count % 10 == 0; --both.places) both.count /= 10;
  if (both.count >= most) return std::nullopt;
  return both;
}

OrderedJson DecimalStep::ToJson() const {
  if (places == 0) return count;
  const std::string text = std::to_string(count) + "e-" + std::to_string(places);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool DecimalStep::Divides(const DecimalLimit& value) const {
  if (value.fraction.size() > static_cast<std::size_t>(places)) return false;
  std::string digits = std::to_string(value.whole) + value.fraction;
  digits.append(static_cast<std::size_t>(places) - value.fraction.size(), '0');
  std::uint64_t remainder = 0;
  for (const char digit : digits) {
    remainder = (remainder * 10 + static_cast<std::uint64_t>(digit - '0')) % count;
  }
  return remainder == 0;
}

std::int64_t DecimalStep::FirstUnit(const DecimalLimit& limit) const {
  std::string digits = std::to_string(limit.whole) + limit.fraction;
  const auto kept = static_cast<std::size_t>(places);
  const bool exact = limit.fraction.size() <= kept;
  digits.resize(digits.size() - limit.fraction.size() + kept, '0');
  std::int64_t units = 0;
  for (const char digit : digits) units = std::min(units * 10 + (digit - '0'), kMaxUnits + 1);
  const bool beyond = exact ? !limit.included : !limit.negative;
  return (limit.negative ? -units : units) + (beyond ? 1 : 0);
}

std::optional<Pc> AddMultiples(ProgramBuilder& builder, const DecimalStep& step, std::int64_t low,
                               std::int64_t high, Pc next) {
  MultipleAdder adder(builder, step, next);
  std::optional<Pc> entry;
  if (high >= 0) entry = adder.Add(low > 0 ? Magnitude(low) : 0, Magnitude(high));
  if (low < 0) {
    const auto below = adder.Add(high < 0 ? Magnitude(high) : 1, Magnitude(low));
    if (below) {
      const Pc negative = builder.Literal("-", *below);
      entry = entry ? builder.Either(negative, *entry) : negative;
    }
  }
  if (adder.full()) return std::nullopt;
  return entry ? *entry : builder.Nothing();
}

}  // namespace kv8
