// Calibration from directory names alone, as the command line has them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "calib/calibrator.h"

namespace kv8 {

/// What to measure, and with what.
struct CalibrationModel {
  std::filesystem::path dir;                    // checkpoint with its tokenizer.json
  std::vector<std::filesystem::path> overlays;  // see EngineOptions
  DeviceKind device = DeviceKind::kCpu;
  std::string backend;  // see EngineOptions
  int threads = 0;      // 0: one per hardware thread
};

/// Opens everything and runs Calibrate. Errors: those of CheckReportOutput and
/// CheckOutsideCheckpoint, first of all;
/// LoadedModel::Open, Tokenizer::Load and Calibrate.
Result<CalibrationReport> CalibrateModel(const CalibrationModel& model,
                                         const CalibrationOptions& options,
                                         const ProgressFn& progress);

}  // namespace kv8
