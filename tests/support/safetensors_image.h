// Safetensors file images with whatever header a test wants to try.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kv8::test {

/// 8-byte little-endian length, header, payload.
inline std::string SafetensorsImage(std::string_view header, std::string_view payload) {
  std::string image;
  for (int i = 0; i < 8; ++i) {
    image.push_back(static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xff));
  }
  return image.append(header).append(payload);
}

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace kv8::test
