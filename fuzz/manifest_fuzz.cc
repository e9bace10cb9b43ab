// kvscales-manifest.json and kvscales-provenance.json: any bytes give a value or an error, and what
// is accepted survives being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "scalepack/manifest.h"
#include "scalepack/provenance.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = kv8::ParseJson(text, "fuzz");
  if (!json.ok()) return 0;
  const auto provenance = kv8::ParseProvenance(*json, "fuzz");
  if (provenance.ok() && provenance->target.sha256.size() != 64) std::abort();
  const auto manifest = kv8::ParseManifest(*json, "fuzz");
  if (!manifest.ok()) return 0;
  const kv8::Json written = kv8::ManifestToJson(*manifest);
  const auto again = kv8::ParseManifest(written, "again");
  if (!again.ok() || kv8::ManifestToJson(*again) != written) std::abort();
  return 0;
}
