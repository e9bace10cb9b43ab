// The calibration report: what `kv8 calibrate` measures and `kv8 pack` turns into scales.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "numeric/log_histogram.h"
#include "scalepack/lineage.h"
#include "scalepack/scale_rule.h"

namespace kv8 {

/// Statistics of one side (K or V) of one layer.
struct SideStatistics {
  std::uint64_t count = 0;  // values seen
  std::uint64_t finite_count = 0;
  std::uint64_t nonzero_count = 0;
  float max_abs = 0;  // over finite values
  /// Values that the saturation pass stored in an E4M3 cache; 0 when there was no such pass, and
  /// then the ratio is unknown.
  std::uint64_t saturation_checked_count = 0;
  std::uint64_t saturated_count = 0;  // of those, |x| > 448 * scale
  /// Set by a merge that raised the scale: the count was measured against a smaller one and may
  /// only be too high.
  bool saturation_is_upper_bound = false;
  LogHistogram histogram;
  std::map<std::string, float> shard_max_abs;  // corpus category -> max, for stability
};

/// One layer's measurement. The draft layer has id = number of target layers.
struct LayerStatistics {
  int layer = 0;
  SideStatistics k;
  SideStatistics v;
};

/// What a pass over documents gave.
struct MeasuredDocuments {
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::vector<LayerStatistics> layers;  // ascending id
};

inline constexpr int kMaxHeldOutPercent = 99;

/// Documents that no scale was fitted to, which tell what scales do to other texts.
struct HeldOut {
  int percent = 0;             // of all documents, by their hash; 1 to kMaxHeldOutPercent
  MeasuredDocuments measured;  // ranges only; the same layers as the report
};

/// What was measured on which checkpoint with which corpus. Its own counts are of the documents
/// that the scales follow from.
struct CalibrationReport : MeasuredDocuments {
  Lineage base;              // the checkpoint's
  std::string layer_prefix;  // checkpoint spelling, e.g. "model.language_model.layers."
  int target_layers = 0;     // layers of the target model; the draft layer's id
  std::vector<std::string> corpus_sha256;  // one per corpus file
  bool partial_corpus = false;             // a limit left documents, or parts of them, out
  ScaleRule rule;                          // how scales follow from the measured values
  std::optional<HeldOut> held_out;
};

/// Smallest FP32 scale with 448 * scale >= max_abs, evaluated exactly; no margin. One exception:
/// max_abs = 448 gives the FP32 number above 1, because a scale of exactly 1 is the mark of an
/// uncalibrated cache and is refused wherever scales are read. `max_abs` must be finite and
/// positive, and at most kMaxMargin times the largest FP32 number.
float ScaleForMaxAbs(double max_abs);

/// Upper edge of the histogram bin that holds the value of rank ceil(q * finite_count), zeros
/// first.
double PercentileUpperBound(const SideStatistics& side, double q);

/// One side's entry as it stands in a report. A side that saw only zeros has scale 0, which no pack
/// takes.
Json SideToJson(const SideStatistics& side, const ScaleRule& rule);

/// Public report keys follow the systems in use; see docs/spec/scale-pack.md.
Json ReportToJson(const CalibrationReport& report);
/// Errors: kCorrupt or kMismatch naming the field: schema, ranges, counts that contradict each
/// other, a scale that does not follow from its own max_abs.
Result<CalibrationReport> ReportFromJson(const Json& json, std::string_view where);
Result<CalibrationReport> ReadReport(const std::filesystem::path& path);

/// Adds counts and takes maxima; order and grouping do not matter. Percentiles and scales follow
/// from the merged counts and maxima exactly. A saturation count stays exact while the scale it was
/// measured against stays; else it becomes an upper bound. Under another rule than the maximum's, a
/// merge may move a scale either way, so it forgets the saturation counts. Errors: kInvalidArgument
/// for an empty list, kMismatch when checkpoint, layers, rule or held-out share differ,
/// kResourceExhausted when a count overflows.
Result<CalibrationReport> MergeReports(const std::vector<CalibrationReport>& reports);

/// Lets the scales follow by another rule, and forgets what was counted against the old ones.
void ApplyRule(const ScaleRule& rule, CalibrationReport* report);

}  // namespace kv8
