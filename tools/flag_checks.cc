#include "flag_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <system_error>
#include <utility>

namespace kv8 {
namespace {

/// "2^31-1" and "2^30" for limits that nobody reads digit by digit.
std::string LimitText(std::uint64_t limit) {
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;
  if (limit < kLarge) return std::to_string(limit);
  if (std::has_single_bit(limit)) return fmt::format("2^{}", std::countr_zero(limit));
  if ((limit & (limit + 1)) == 0) return fmt::format("2^{}-1", std::countr_one(limit));
  return std::to_string(limit);
}

/// A number that `allowed` says good of.
template <class Allowed>
CLI::Validator Number(std::string range, Allowed allowed) {
  return CLI::Validator(
      [allowed, range](const std::string& text) {
        double number = 0;
        const bool good = CLI::detail::lexical_cast(text, number) && allowed(number);
        return good ? std::string()
                    : fmt::format("\"{}\" is not a number that is allowed: {}", text, range);
      },
      range);
}

}  // namespace

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& text) { return std::string(text.empty() ? "the path is empty" : ""); },
      "");
}

CLI::Validator NumberWithin(double low, double high) {
  return Number(fmt::format("{} to {}", low, high),
                [low, high](double number) { return number >= low && number <= high; });
}

CLI::Validator Probability() {
  // What is above 0 must not become 0 in FP32.
  return Number("above 0, at most 1",
                [](double number) { return static_cast<float>(number) > 0 && number <= 1; });
}

CLI::Validator WholeNumberWithin(std::uint64_t low, std::uint64_t high) {
  const std::string range = fmt::format("{} to {}", low, LimitText(high));
  return CLI::Validator(
      [low, high, range](const std::string& text) {
        const bool octal = text.size() > 1 && text.front() == '0';
        const char* const end = text.data() + text.size();
        std::uint64_t number = 0;
        const auto [stop, problem] = std::from_chars(text.data(), end, number);
        const bool good =
            !octal && problem == std::errc() && stop == end && number >= low && number <= high;
        return good ? std::string()
                    : fmt::format("\"{}\" is not a whole number that is allowed: {}", text, range);
      },
      range);
}

CLI::Validator OneOf(std::vector<std::string> values) {
  const std::string list = fmt::format("{}", fmt::join(values, ", "));
  return CLI::Validator(
      [values = std::move(values), list](const std::string& text) {
        if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
        return fmt::format("\"{}\" is not one of {}", text, list);
      },
      "{" + list + "}");
}

}  // namespace kv8
