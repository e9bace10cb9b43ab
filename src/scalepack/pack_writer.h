// Building a scale pack from a calibration report.
#pragma once

#include <filesystem>
#include <string>

#include "base/staged_directory.h"
#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/calibration_report.h"
#include "scalepack/scale_file.h"
#include "scalepack/sidecar.h"

namespace kv8 {

struct PackOptions {
  std::string repo_id;  // the base checkpoint's public name; its directory's name when empty
  StepHook hook;        // see StagedDirectory
  WeightsHashOptions hash;
};

/// What was written, for the command's summary.
struct PackSummary {
  std::string artifact_id;
  std::size_t target_scales = 0;
  std::size_t draft_scales = 0;
};

/// Writes the pack to `output_dir`, which must not exist: target scales, draft scales when the
/// report has the draft layer, manifest, README and SHA256SUMS. All or nothing appears.
/// Errors: kMismatch for a report of another checkpoint or other layers; kInvalidArgument for a
/// side with non-finite values or a maximum of zero, and for a checkpoint without an index or with
/// scales of its own, and for an output inside of it; kAlreadyExists, kIo.
Result<PackSummary> WritePack(const CalibrationReport& report, const Checkpoint& checkpoint,
                              const std::filesystem::path& output_dir, const PackOptions& options);

/// The same with scales that another tool wrote, as ParseSidecar reads them. Nothing tells whether
/// they were measured on `checkpoint`; the pack is bound to it, and says that they were imported.
/// Errors: kMismatch for a layer that is no QSA layer here and for scales that no text can give;
/// kNotFound, listing them, for scales that are missing; the rest as WritePack.
Result<PackSummary> WriteImportedPack(const SidecarFile& sidecar, const std::string& where,
                                      const Checkpoint& checkpoint,
                                      const std::filesystem::path& output_dir,
                                      const PackOptions& options);

/// The draft's shard from a report of `checkpoint`. Errors: as WritePack; kNotFound when the report
/// lacks the draft layer.
Result<ScaleFile> DraftScalesFromReport(const CalibrationReport& report,
                                        const Checkpoint& checkpoint,
                                        const WeightsHashOptions& hash);

}  // namespace kv8
