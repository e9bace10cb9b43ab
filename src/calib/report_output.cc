#include "calib/report_output.h"

#include "base/file.h"
#include "base/json.h"

namespace kv8 {

Result<void> CheckReportOutput(const std::filesystem::path& path) {
  if (!path.has_filename()) {
    return Error{Code::kInvalidArgument, "the output has no file name", path.string(),
                 "name a file, for example report.json"};
  }
  std::error_code error;
  // symlink_status: a dangling link is something that exists, too.
  if (std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    return Error{Code::kAlreadyExists, "the output exists", path.string(),
                 "name another --output, or move the file away"};
  }
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
