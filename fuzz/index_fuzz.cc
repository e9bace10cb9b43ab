// ParseTensorIndex on any text: no crash, and no accepted file name leaves its directory.
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include "checkpoint/index.h"
#include "family/tensor_names.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = kv8::ParseJson({reinterpret_cast<const char*>(data), size}, "input");
  if (!json.ok()) return 0;
  const auto index = kv8::ParseTensorIndex(*json, "input");
  if (!index.ok()) return 0;
  for (const auto& [tensor, file] : *index) {
    if (std::filesystem::path("dir") / file != "dir/" + file) std::abort();
    if (std::filesystem::path(file).has_parent_path()) std::abort();
    kv8::CanonicalName(tensor);
    kv8::LayerVoteOf(tensor);
  }
  return 0;
}
