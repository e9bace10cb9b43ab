#include "speed/spread.h"

#include <fmt/format.h>

#include <algorithm>

namespace kv8 {

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Json SpreadJson(const std::vector<double>& values) {
  if (values.empty()) return {};
  return {{"median", Median(values)},
          {"low", std::ranges::min(values)},
          {"high", std::ranges::max(values)},
          {"values", values}};
}

std::string SpreadText(const Json& spread) {
  if (spread.is_null()) return "-";
  return fmt::format("{:.4g} ({:.4g} to {:.4g})", spread["median"].get<double>(),
                     spread["low"].get<double>(), spread["high"].get<double>());
}

}  // namespace kv8
