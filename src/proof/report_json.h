// report.json: everything that a verification found.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "proof/arm_runs.h"

namespace kv8 {

/// The object of report.json. Keys: `kv8_verify` (1), `passed`, `gates`, `verdicts`, `figures`,
/// `failures`, `arms`, `overlap`, `diagnostics`, `checkpoint`, `corpus_sha256`, `seconds`.
Json ReportJson(const VerifyOptions& options, const RunInputs& inputs, const ArmRuns& runs,
                double seconds);

/// Lines about what did not pass: gates, and measurements that failed; from a report.
std::vector<std::string> FailureLines(const Json& report);

}  // namespace kv8
