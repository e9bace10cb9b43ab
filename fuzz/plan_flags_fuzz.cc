// What `kv8 plan` reads from its command line: sizes, rates, lists of devices, formats. Any text is
// a value within its bounds or an error that says something.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plan/device_list.h"
#include "plan/quantity.h"
#include "plan/rates.h"
#include "plan/weight_formats.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto bytes = kv8::ParseBytes(text);
  Require(bytes.ok() ? *bytes >= 1 && *bytes < 1LL << 60 : !bytes.error().what.empty());
  const auto devices = kv8::ParseDevices(text);
  if (devices.ok()) {
    Require(!devices->empty() && devices->size() <= kv8::kMaxDevices);
    for (const kv8::PlannedDevice& device : *devices) Require(device.memory >= 1);
  }
  const auto rates = kv8::ParseRates(text);
  if (rates.ok()) {
    for (const double rate : {rates->read, rates->copy, rates->matrix, rates->dispatch}) {
      Require(std::isfinite(rate) && rate >= 0);
    }
  }
  const auto weights = kv8::ParseWeightFormat(text);
  Require(!weights.ok() || weights->rows == 0);
  Require(kv8::ParseTableFormat(text).ok() == (text == "bf16" || text == "fp8" || text == "nvfp4"));
  return 0;
}
