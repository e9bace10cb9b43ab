// Compiled kernels, embedded in the binary by the build (cmake/Kv8Device.cmake).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kv8::cuda {

/// One device source, compiled. An empty image was not built.
struct DeviceCode {
  std::string_view source;
  std::span<const std::byte> fatbin;      // of the toolkit: sm_75 on, or all with a 12.x toolkit
  std::span<const std::byte> sm70_cubin;  // of scripts/compile_device.py
  std::span<const std::byte> sm70_ptx;    // zero-terminated
};

/// Empty in a build without device code.
std::span<const DeviceCode> EmbeddedDeviceCode();

}  // namespace kv8::cuda
