// A calibration in progress, on disk: what a run needs to go on after a kill.
#pragma once

#include <filesystem>
#include <optional>

#include "base/json.h"
#include "calib/token_source.h"
#include "kv8/error.h"
#include "scalepack/calibration_report.h"

namespace kv8 {

/// The passes over the corpus, in order.
enum class CalibrationPass { kRanges = 0, kHeldOut = 1, kSaturation = 2 };

/// Statistics so far and where to go on; always between two documents.
struct PartialState {
  CalibrationPass pass = CalibrationPass::kRanges;
  SourcePosition position;  // in that pass
  CalibrationReport report;
};

/// "REPORT.json" -> "REPORT.json.partial".
std::filesystem::path PartialPath(const std::filesystem::path& output);

/// Writes atomically. `identity` is everything that the result depends on. Errors: kIo.
Result<void> SavePartial(const std::filesystem::path& path, const Json& identity,
                         const PartialState& state);

/// nullopt when there is no such file. Errors: kMismatch, naming the first key of `identity` that
/// differs; kCorrupt. Both say how to start again.
Result<std::optional<PartialState>> LoadPartial(const std::filesystem::path& path,
                                                const Json& identity);

}  // namespace kv8
