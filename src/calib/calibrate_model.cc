#include "calib/calibrate_model.h"

#include <algorithm>
#include <thread>

#include "base/output_path.h"
#include "calib/report_output.h"
#include "model/loaded_model.h"

namespace kv8 {

Result<CalibrationReport> CalibrateModel(const CalibrationModel& model,
                                         const CalibrationOptions& options,
                                         const ProgressFn& progress) {
  KV8_RETURN_IF_ERROR(CheckReportOutput(options.output));
  KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(options.output, model.dir));
  for (const std::filesystem::path& overlay : model.overlays) {
    KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(options.output, overlay));
  }
  // The source's cache type stays out of it: both passes make caches of their own.
  KV8_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadedModel::Open({.dir = model.dir,
                                                                    .overlays = model.overlays,
                                                                    .with_draft = std::nullopt}));
  KV8_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(model.dir / "tokenizer.json"));
  const auto hardware = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return Calibrate({.model = loaded,
                    .tokenizer = tokenizer,
                    .device = model.device,
                    .backend = model.backend,
                    .threads = model.threads > 0 ? model.threads : hardware},
                   options, progress);
}

}  // namespace kv8
