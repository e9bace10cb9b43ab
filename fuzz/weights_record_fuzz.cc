// Records of hashed weights: any bytes give a value or an error, and what is accepted survives
// being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "checkpoint/weights_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = kv8::ParseJson(text, "fuzz");
  if (!json.ok()) return 0;
  const auto record = kv8::ParseWeightsRecord(*json, "fuzz");
  if (!record.ok()) return 0;
  const auto again = kv8::ParseWeightsRecord(kv8::WeightsRecordToJson(*record), "again");
  if (!again.ok() || again->sha256 != record->sha256 || !(again->stamp == record->stamp)) {
    std::abort();
  }
  return 0;
}
