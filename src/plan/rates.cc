#include "plan/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "plan/quantity.h"

namespace kv8 {
namespace {

struct Field {
  std::string_view name;
  double Rates::*value;
};
constexpr Field kFields[] = {
    {"read", &Rates::read}, {"copy", &Rates::copy}, {"matrix", &Rates::matrix}};

Error Wrong(std::string_view entry) {
  return Error{Code::kInvalidArgument,
               fmt::format("\"{}\" is not a rate: read=, copy= or matrix= with a number per second "
                           "such as 900G, or dispatch= with seconds, each once",
                           entry),
               "", ""};
}

/// At most a second.
Result<double> ParseSeconds(std::string_view text, std::string_view entry) {
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = problem == std::errc() && stop == text.data() + text.size();
  if (!good || !(value > 0 && value <= 1)) return Wrong(entry);
  return value;
}

Result<void> ParseEntry(std::string_view entry, Rates& rates) {
  const std::size_t equals = std::min(entry.find('='), entry.size());
  const std::string_view name = entry.substr(0, equals);
  const std::string_view text = entry.substr(std::min(equals + 1, entry.size()));
  if (name == "dispatch" && rates.dispatch == 0) {
    KV8_ASSIGN_OR_RETURN(rates.dispatch, ParseSeconds(text, entry));
    return {};
  }
  for (const Field& field : kFields) {
    if (field.name != name || rates.*field.value != 0) continue;
    const auto rate = ParseRate(text);
    if (!rate.ok()) return Wrong(entry);
    rates.*field.value = *rate;
    return {};
  }
  return Wrong(entry);
}

}  // namespace

Result<Rates> ParseRates(std::string_view text) {
  Rates rates;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    KV8_RETURN_IF_ERROR(ParseEntry(text.substr(begin, end - begin), rates));
    begin = end + 1;
  }
  return rates;
}

}  // namespace kv8
