// ParseSafetensors on any bytes: no crash, and what it accepts is consistent and round-trips.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto content = kv8::ParseSafetensors(bytes, "input");
  if (!content.ok()) return 0;
  for (const auto& [name, view] : content->tensors) {
    const bool inside = view.data >= bytes.data() && view.bytes() >= 0 &&
                        view.data + view.bytes() <= bytes.data() + bytes.size();
    if (!inside) std::abort();
  }
  const std::string image = kv8::SerializeSafetensors(*content);
  const auto again = kv8::ParseSafetensors(std::as_bytes(std::span(image)), "image");
  if (!again.ok() || kv8::SerializeSafetensors(*again) != image) std::abort();
  return 0;
}
