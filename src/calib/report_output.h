// Where a calibration report goes.
#pragma once

#include <filesystem>

#include "kv8/error.h"
#include "scalepack/calibration_report.h"

namespace kv8 {

/// Refuses what would only fail after hours. Errors: kAlreadyExists for a path that exists,
/// kNotFound for a missing directory, kInvalidArgument for an empty path.
Result<void> CheckReportOutput(const std::filesystem::path& path);

/// Writes atomically. Errors: kIo.
Result<void> WriteReport(const std::filesystem::path& path, const CalibrationReport& report);

}  // namespace kv8
