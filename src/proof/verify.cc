#include "proof/verify.h"

#include <chrono>
#include <system_error>

#include "base/file.h"
#include "base/output_path.h"
#include "proof/arm_runs.h"
#include "proof/report_html.h"
#include "proof/report_json.h"
#include "proof/run_inputs.h"

namespace kv8 {
namespace {

Result<void> PrepareDirectory(const VerifyOptions& options) {
  KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(options.output_dir, options.engine.model));
  for (const ArmSpec* arm : {&options.a, &options.b}) {
    if (arm->scale_pack) KV8_RETURN_IF_ERROR(CheckOutside(options.output_dir, {*arm->scale_pack}));
  }
  const std::filesystem::path parts = options.output_dir / "parts";
  std::error_code error;
  if (options.restart) std::filesystem::remove_all(parts, error);
  if (!error) std::filesystem::create_directories(parts, error);
  if (error) return SystemError(parts, "prepare", error.value());
  return {};
}

}  // namespace

Result<VerifyResult> Verify(const VerifyOptions& options, const VerifyProgress& progress) {
  const auto start = std::chrono::steady_clock::now();
  KV8_ASSIGN_OR_RETURN(const RunInputs inputs, ReadInputs(options));
  KV8_RETURN_IF_ERROR(PrepareDirectory(options));
  ArmRuns runs(options, inputs, progress);
  KV8_RETURN_IF_ERROR(runs.Measure());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  VerifyResult result{.report = ReportJson(options, inputs, runs, seconds.count()), .failures = {}};
  result.failures = FailureLines(result.report);
  KV8_RETURN_IF_ERROR(WriteFileAtomic(options.output_dir / "report.json", DumpJson(result.report)));
  KV8_RETURN_IF_ERROR(
      WriteFileAtomic(options.output_dir / "report.html", ReportHtml(result.report)));
  return result;
}

}  // namespace kv8
