#include "plan/device_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "plan/quantity.h"

namespace kv8 {
namespace {

struct KnownDevice {
  std::string_view name;
  std::int64_t memory_mib;
  double read;    // bytes per second of its memory
  double matrix;  // dense FP16 multiply-adds per second, tensor cores with FP32 sums
};

// Memory and rates as in the vendor's data sheets: what a plan divides by is a bound, not a
// promise.
constexpr KnownDevice kKnown[] = {
    {"v100-16g", 16384, 900e9, 62.5e12},  {"v100-32g", 32768, 900e9, 62.5e12},
    {"t4", 15360, 320e9, 32.5e12},        {"rtx-3090", 24576, 936e9, 35.5e12},
    {"rtx-4090", 24564, 1008e9, 82.5e12}, {"rtx-5090", 32607, 1792e9, 104.5e12},
    {"a100-40g", 40960, 1555e9, 156e12},  {"a100-80g", 81920, 2039e9, 156e12},
    {"l40s", 46068, 864e9, 181e12},       {"rtx-pro-6000", 97887, 1792e9, 251e12},
    {"h100", 81559, 3350e9, 494.5e12},    {"h200", 143771, 4800e9, 494.5e12},
    {"b200", 183359, 8000e9, 1125e12},
};

Error Unknown(std::string_view entry) {
  return Error{
      Code::kInvalidArgument,
      fmt::format("\"{}\" is neither a size such as 24GiB nor one of {}", entry, KnownDevices()),
      "", ""};
}

/// "4x24G" -> 4 and "24G".
Result<std::pair<int, std::string_view>> SplitCount(std::string_view entry) {
  const std::size_t digits = std::min(entry.find_first_not_of("0123456789"), entry.size());
  if (digits == 0 || digits >= entry.size() || entry[digits] != 'x') return std::pair(1, entry);
  int count = 0;
  const auto [stop, problem] = std::from_chars(entry.data(), entry.data() + digits, count);
  if (problem == std::errc() && count >= 1 && count <= kMaxDevices) {
    return std::pair(count, entry.substr(digits + 1));
  }
  return Error{
      Code::kInvalidArgument,
      fmt::format("\"{}\" asks for a number of devices outside 1 to {}", entry, kMaxDevices), "",
      ""};
}

Result<PlannedDevice> ParseDevice(std::string_view entry) {
  for (const KnownDevice& known : kKnown) {
    if (known.name != entry) continue;
    return PlannedDevice{std::string(entry),
                         known.memory_mib << 20,
                         {.read = known.read, .copy = known.read / 2, .matrix = known.matrix}};
  }
  const auto bytes = ParseBytes(entry);
  if (!bytes.ok()) return Unknown(entry);
  return PlannedDevice{std::string(entry), *bytes, {}};
}

}  // namespace

std::string KnownDevices() {
  std::vector<std::string_view> names;
  std::ranges::transform(kKnown, std::back_inserter(names), &KnownDevice::name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<std::vector<PlannedDevice>> ParseDevices(std::string_view text) {
  std::vector<PlannedDevice> devices;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    KV8_ASSIGN_OR_RETURN(const auto entry, SplitCount(text.substr(begin, end - begin)));
    KV8_ASSIGN_OR_RETURN(const PlannedDevice device, ParseDevice(entry.second));
    if (std::ssize(devices) + entry.first > kMaxDevices) {
      return Error{Code::kInvalidArgument, fmt::format("more than {} devices", kMaxDevices), "",
                   ""};
    }
    devices.insert(devices.end(), static_cast<std::size_t>(entry.first), device);
    begin = end + 1;
  }
  return devices;
}

}  // namespace kv8
