// SHA256SUMS: any bytes give a list or an error; an accepted list survives being written, and names
// no file outside its directory.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "scalepack/sha256sums.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto sums = kv8::ParseSha256Sums(text, "fuzz");
  if (!sums.ok()) return 0;
  for (const auto& [name, hash] : *sums) {
    if (name.find('/') != name.npos || name == ".." || hash.size() != 64) std::abort();
  }
  const auto again = kv8::ParseSha256Sums(kv8::FormatSha256Sums(*sums), "again");
  if (!again.ok() || *again != *sums) std::abort();
  return 0;
}
