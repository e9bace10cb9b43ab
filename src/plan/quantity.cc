#include "plan/quantity.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>

namespace kv8 {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024;
constexpr Unit kByteUnits[] = {{"", 1},
                               {"B", 1},
                               {"K", 1e3},
                               {"KB", 1e3},
                               {"KiB", kKi},
                               {"M", 1e6},
                               {"MB", 1e6},
                               {"MiB", kKi* kKi},
                               {"G", 1e9},
                               {"GB", 1e9},
                               {"GiB", kKi* kKi* kKi},
                               {"T", 1e12},
                               {"TB", 1e12},
                               {"TiB", kKi* kKi* kKi* kKi}};
constexpr Unit kRateUnits[] = {{"", 1},    {"K", 1e3},  {"M", 1e6},
                               {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};

constexpr double kMost = 1LL << 60;

/// Digits with at most one point among them.
bool IsNumber(std::string_view text) {
  const std::size_t point = text.find('.');
  return !text.empty() && text.find_first_not_of("0123456789.") == text.npos &&
         text.front() != '.' && text.back() != '.' && text.find('.', point + 1) == text.npos;
}

template <std::size_t N>
Result<double> Parse(std::string_view text, const Unit (&units)[N], std::string_view example) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits), name = text.substr(digits);
  double value = 0;
  const bool good =
      IsNumber(number) &&
      std::from_chars(number.data(), number.data() + number.size(), value).ec == std::errc();
  for (const Unit& unit : units) {
    if (!good || unit.name != name) continue;
    const double scaled = value * unit.factor;
    if (scaled >= 1 && scaled < kMost) return scaled;
  }
  return Error{
      Code::kInvalidArgument,
      fmt::format("\"{}\" is not a quantity: a number and a unit, as in {}", text, example), "",
      ""};
}

}  // namespace

Result<std::int64_t> ParseBytes(std::string_view text) {
  KV8_ASSIGN_OR_RETURN(const double bytes,
                       Parse(text, kByteUnits, "24GB (10^9), 24GiB (2^30) or 24000000000"));
  return static_cast<std::int64_t>(bytes);
}

Result<double> ParseRate(std::string_view text) {
  return Parse(text, kRateUnits, "900G or 125T");
}

}  // namespace kv8
