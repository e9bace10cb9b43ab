// JSON sidecars: any bytes give scales or an error, and every accepted scale is one that a pack may
// hold.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "scalepack/sidecar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kTargetLayers = 12;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = kv8::ParseJson(text, "fuzz");
  if (!json.ok()) return 0;
  const auto scales = kv8::ParseSidecar(*json, kTargetLayers, "fuzz");
  if (!scales.ok()) return 0;
  for (const auto& [slot, value] : *scales) {
    const bool in_model = slot.layer >= 0 && slot.layer < kTargetLayers;
    if (!in_model || !std::isfinite(value) || value <= 0 || value == 1) std::abort();
  }
  if (scales->size() % 2 != 0) std::abort();
  return 0;
}
