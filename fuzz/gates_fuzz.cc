// ParseGates on any JSON: no crash, and every accepted gate has a finite limit.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "proof/gates.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = kv8::ParseJson({reinterpret_cast<const char*>(data), size}, "input");
  if (!json.ok()) return 0;
  const auto gates = kv8::ParseGates(*json, "input");
  if (!gates.ok()) return 0;
  for (const kv8::Gate& gate : *gates) {
    if (!std::isfinite(gate.at_most.value_or(0))) std::abort();
    if (!std::isfinite(gate.at_least.value_or(0))) std::abort();
    if (!gate.at_most && !gate.at_least) std::abort();
  }
  if (kv8::CheckGates(*gates, {}).size() != gates->size()) std::abort();
  return 0;
}
