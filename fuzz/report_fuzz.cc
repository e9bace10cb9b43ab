// Calibration reports: any bytes give a report or an error; an accepted report survives being
// written and read again, and can be merged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "scalepack/calibration_report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = kv8::ParseJson(text, "fuzz");
  if (!json.ok()) return 0;
  const auto report = kv8::ReportFromJson(*json, "fuzz");
  if (!report.ok()) return 0;
  const kv8::Json written = kv8::ReportToJson(*report);
  const auto again = kv8::ReportFromJson(written, "again");
  if (!again.ok() || kv8::ReportToJson(*again) != written) std::abort();
  const auto merged = kv8::MergeReports({*report, *again});
  if (merged.ok() && !kv8::ReportFromJson(kv8::ReportToJson(*merged), "merged").ok()) std::abort();
  return 0;
}
