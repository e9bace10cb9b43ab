#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"
#include "scalepack/calibration_report.h"

namespace kv8 {
namespace {

/// Adds `more` to `*total`; false on overflow.
bool AddTo(std::uint64_t* total, std::uint64_t more) {
  const auto sum = CheckedAdd(*total, more);
  if (sum) *total = *sum;
  return sum.has_value();
}

bool MergeCounts(SideStatistics* into, const SideStatistics& from) {
  bool fits = AddTo(&into->count, from.count) && AddTo(&into->finite_count, from.finite_count) &&
              AddTo(&into->nonzero_count, from.nonzero_count) &&
              AddTo(&into->saturation_checked_count, from.saturation_checked_count) &&
              AddTo(&into->saturated_count, from.saturated_count);
  for (int bin = 0; bin < LogHistogram::kBins; ++bin) {
    fits = fits && AddTo(&into->histogram.bins[bin], from.histogram.bins[bin]);
  }
  return fits;
}

bool MergeSide(SideStatistics* into, const SideStatistics& from) {
  // A side that has seen nothing was measured against no scale, so it bounds nothing.
  const bool scale_moves = into->max_abs != from.max_abs && into->count > 0 && from.count > 0;
  into->saturation_is_upper_bound |= from.saturation_is_upper_bound || scale_moves;
  into->max_abs = std::max(into->max_abs, from.max_abs);
  for (const auto& [shard, max_abs] : from.shard_max_abs) {
    float& merged = into->shard_max_abs[shard];
    merged = std::max(merged, max_abs);
  }
  return MergeCounts(into, from);
}

Error Mismatch(std::size_t index, std::string_view field, std::string_view a, std::string_view b) {
  return Error{Code::kMismatch,
               fmt::format("report {} has {} {}; report 1 has {}", index + 1, field, b, a),
               "merge of calibration reports",
               "merge only reports that were measured alike on the same checkpoint"};
}

std::string LayerList(const CalibrationReport& report) {
  std::vector<int> ids;
  for (const LayerStatistics& layer : report.layers) ids.push_back(layer.layer);
  return fmt::format("[{}]", fmt::join(ids, ", "));
}

std::string HeldOutShare(const CalibrationReport& report) {
  return report.held_out ? fmt::to_string(report.held_out->percent) : "none";
}

Result<void> CheckSameModel(const CalibrationReport& first, const CalibrationReport& other,
                            std::size_t index) {
  const auto compare = [index](std::string_view field, const std::string& a,
                               const std::string& b) -> Result<void> {
    if (a != b) return Mismatch(index, field, a, b);
    return {};
  };
  KV8_RETURN_IF_ERROR(compare("index_sha256", first.base.index_sha256, other.base.index_sha256));
  KV8_RETURN_IF_ERROR(
      compare("kv_weights_sha256", first.base.kv_weights_sha256, other.base.kv_weights_sha256));
  KV8_RETURN_IF_ERROR(
      compare("weights_sha256", first.base.weights_sha256, other.base.weights_sha256));
  KV8_RETURN_IF_ERROR(compare("config", first.base.config.dump(), other.base.config.dump()));
  KV8_RETURN_IF_ERROR(compare("layer_prefix", first.layer_prefix, other.layer_prefix));
  KV8_RETURN_IF_ERROR(compare("num_hidden_layers", fmt::to_string(first.target_layers),
                              fmt::to_string(other.target_layers)));
  KV8_RETURN_IF_ERROR(compare("scale_rule", Describe(first.rule), Describe(other.rule)));
  KV8_RETURN_IF_ERROR(compare("held_out.percent", HeldOutShare(first), HeldOutShare(other)));
  return compare("layers", LayerList(first), LayerList(other));
}

bool MergeDocuments(MeasuredDocuments* into, const MeasuredDocuments& from) {
  bool fits = AddTo(&into->documents, from.documents) && AddTo(&into->tokens, from.tokens);
  for (std::size_t i = 0; i < into->layers.size(); ++i) {
    fits = fits && MergeSide(&into->layers[i].k, from.layers[i].k) &&
           MergeSide(&into->layers[i].v, from.layers[i].v);
  }
  return fits;
}

/// Counted against scales that the merged values need not give.
void ForgetSaturation(std::vector<LayerStatistics>& layers) {
  for (LayerStatistics& layer : layers) {
    for (SideStatistics* const side : {&layer.k, &layer.v}) {
      side->saturation_checked_count = side->saturated_count = 0;
      side->saturation_is_upper_bound = false;
    }
  }
}

bool MergeInto(CalibrationReport* into, const CalibrationReport& from) {
  bool fits = MergeDocuments(into, from);
  if (into->held_out) {
    fits = fits && MergeDocuments(&into->held_out->measured, from.held_out->measured);
    ForgetSaturation(into->held_out->measured.layers);
  }
  if (into->rule.method != ScaleMethod::kMax) ForgetSaturation(into->layers);
  into->partial_corpus |= from.partial_corpus;
  into->corpus_sha256.insert(into->corpus_sha256.end(), from.corpus_sha256.begin(),
                             from.corpus_sha256.end());
  return fits;
}

}  // namespace

void ApplyRule(const ScaleRule& rule, CalibrationReport* report) {
  report->rule = rule;
  ForgetSaturation(report->layers);
}

Result<CalibrationReport> MergeReports(const std::vector<CalibrationReport>& reports) {
  if (reports.empty()) {
    return Error{Code::kInvalidArgument, "no calibration reports", "merge of calibration reports",
                 "name at least one report"};
  }
  CalibrationReport merged = reports.front();
  for (std::size_t i = 1; i < reports.size(); ++i) {
    KV8_RETURN_IF_ERROR(CheckSameModel(merged, reports[i], i));
    if (!MergeInto(&merged, reports[i])) {
      return Error{Code::kResourceExhausted, "the merged counts do not fit 64 bits",
                   fmt::format("report {}", i + 1), "check the reports"};
    }
  }
  // Sorted, so that the order of the reports leaves no trace.
  std::sort(merged.corpus_sha256.begin(), merged.corpus_sha256.end());
  return merged;
}

}  // namespace kv8
