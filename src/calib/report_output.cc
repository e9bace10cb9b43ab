#include "calib/report_output.h"

#include "base/file.h"
#include "base/json.h"

namespace kv8 {

Result<void> CheckReportOutput(const std::filesystem::path& path) {
  if (!path.has_filename()) {
    return Error{Code::kInvalidArgument, "the output has no file name", path.string(),
                 "name a file, for example report.json"};
  }
  KV8_RETURN_IF_ERROR(CheckNewOutput(path));
  std::error_code error;
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(directory, error)) {
    return Error{Code::kNotFound, "the output's directory does not exist", directory.string(),
                 "create it first"};
  }
  return {};
}

Result<void> WriteReport(const std::filesystem::path& path, const CalibrationReport& report) {
  KV8_RETURN_IF_ERROR(WriteNewFile(path, DumpJson(ReportToJson(report))));
  return SyncDirectory(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace kv8
