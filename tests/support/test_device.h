// The device of tests that hold on every one.
#pragma once

#include <cstdlib>
#include <string_view>

#include "kv8/types.h"

namespace kv8::test {

/// KV8_TEST_DEVICE in the environment: "cuda", or absent for the CPU.
inline DeviceKind TestDevice() {
  const char* const name = std::getenv("KV8_TEST_DEVICE");
  return name != nullptr && std::string_view(name) == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
}

}  // namespace kv8::test
