// One side's entries in a calibration report.
#pragma once

#include "base/json.h"
#include "base/json_fields.h"
#include "kv8/error.h"
#include "scalepack/calibration_report.h"

namespace kv8 {

/// The entry that SideToJson writes. Errors: kCorrupt, naming the field, for counts, histogram and
/// maximum that contradict each other, and for a field that does not follow from them.
Result<SideStatistics> SideFromJson(const JsonFields& fields, const ScaleRule& rule);

/// The entry of held-out values: what was measured, and what each rule's scale, which follows from
/// `fitted`, does to them.
Json HeldOutSideToJson(const SideStatistics& fitted, const SideStatistics& held_out,
                       const ScaleRule& chosen);
/// Errors: as SideFromJson.
Result<SideStatistics> HeldOutSideFromJson(const JsonFields& fields, const SideStatistics& fitted,
                                           const ScaleRule& chosen);

}  // namespace kv8
