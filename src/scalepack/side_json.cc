#include "scalepack/side_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "scalepack/compared_rules.h"

namespace kv8 {
namespace {

/// exp2 may differ in the last place between C libraries; everything else is exact.
constexpr double kDerivedTolerance = 1e-9;

float ScaleOrZero(float max_abs) {
  return max_abs > 0 ? ScaleForMaxAbs(max_abs) : 0.0f;
}

double Ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0.0;
}

Json SparseHistogram(const LogHistogram& histogram) {
  Json bins = Json::array();
  for (int bin = 0; bin < LogHistogram::kBins; ++bin) {
    if (histogram.bins[bin] > 0) bins.push_back({bin, histogram.bins[bin]});
  }
  return bins;
}

/// null when nothing was measured: an unknown ratio is not 0.
Json SaturationRatio(const SideStatistics& side) {
  if (side.saturation_checked_count == 0) return {};
  return static_cast<double>(side.saturated_count) /
         static_cast<double>(side.saturation_checked_count);
}

/// What a reader can recompute from the measured values.
Json DerivedFields(const SideStatistics& side, const ScaleRule& rule) {
  const float scale = ScaleOrZero(side.max_abs);  // shards are compared by their maxima
  Json shard_scales = Json::object();
  double lowest = HUGE_VAL;
  double highest = 0;
  for (const auto& [shard, max_abs] : side.shard_max_abs) {
    const float shard_scale = ScaleOrZero(max_abs);
    shard_scales[shard] = shard_scale;
    lowest = std::fmin(lowest, Ratio(shard_scale, scale));
    highest = std::fmax(highest, Ratio(shard_scale, scale));
  }
  const bool any = !side.shard_max_abs.empty();
  return {{"scale", ScaleFor(side, rule)},
          {"p99_9_abs_upper_bound", PercentileUpperBound(side, 0.999)},
          {"p99_99_abs_upper_bound", PercentileUpperBound(side, 0.9999)},
          {"saturation_ratio", SaturationRatio(side)},
          {"shard_scales", shard_scales},
          {"shard_scale_min_over_global", any ? Json(lowest) : Json()},
          {"shard_scale_max_over_global", any ? Json(highest) : Json()}};
}

bool SameDerived(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>();
    const double y = b.get<double>();
    return std::fabs(x - y) <= kDerivedTolerance * std::fmax(std::fabs(x), std::fabs(y));
  }
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameDerived);
  }
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key) || !SameDerived(value, b.at(key))) return false;
  }
  return true;
}

/// A non-negative number that is exactly an FP32 value.
Result<float> Magnitude(const JsonFields& fields, std::string_view key) {
  KV8_ASSIGN_OR_RETURN(const double value, fields.Number(key));
  if (value < 0 || value > std::numeric_limits<float>::max() ||
      static_cast<double>(static_cast<float>(value)) != value) {
    return fields.Bad(key, "must be a non-negative FP32 number");
  }
  return static_cast<float>(value);
}

Result<LogHistogram> ReadHistogram(const JsonFields& fields) {
  constexpr std::string_view kKey = "histogram";
  KV8_ASSIGN_OR_RETURN(const Json* entries, fields.Array(kKey));
  LogHistogram histogram;
  int next = 0;
  for (const Json& entry : *entries) {
    if (!entry.is_array() || entry.size() != 2 || !AsCount(entry[0]) || !AsCount(entry[1])) {
      return fields.Bad(kKey, "must hold [bin, count] pairs");
    }
    const std::uint64_t bin = *AsCount(entry[0]);
    const std::uint64_t count = *AsCount(entry[1]);
    if (bin < static_cast<std::uint64_t>(next) || bin >= LogHistogram::kBins || count == 0) {
      return fields.Bad(kKey, fmt::format("has the entry [{}, {}]: bins must ascend below {} and "
                                          "counts be positive",
                                          bin, count, LogHistogram::kBins));
    }
    histogram.bins[bin] = count;
    next = static_cast<int>(bin) + 1;
  }
  return histogram;
}

/// The histogram must tell the same story as the counts and the maximum.
Result<void> CheckHistogram(const JsonFields& fields, const SideStatistics& side) {
  std::uint64_t total = 0;
  int last = -1;
  for (int bin = 0; bin < LogHistogram::kBins; ++bin) {
    const auto sum = CheckedAdd(total, side.histogram.bins[bin]);
    if (!sum) return fields.Bad("histogram", "has counts that overflow");
    total = *sum;
    if (side.histogram.bins[bin] > 0) last = bin;
  }
  if (total != side.nonzero_count) {
    return fields.Bad("histogram", fmt::format("counts {} values; \"nonzero_count\" is {}", total,
                                               side.nonzero_count));
  }
  if ((side.max_abs > 0) != (side.nonzero_count > 0)) {
    return fields.Bad(
        "max_abs", fmt::format("is {} with {} nonzero values", side.max_abs, side.nonzero_count));
  }
  // One bin of slack: a value on an edge may round to either side in a faster logarithm.
  if (side.max_abs > 0 && std::abs(LogHistogram::BinOf(side.max_abs) - last) > 1) {
    return fields.Bad("max_abs",
                      fmt::format("is {}, in bin {}; the highest filled bin is {}", side.max_abs,
                                  LogHistogram::BinOf(side.max_abs), last));
  }
  return {};
}

Result<void> ReadCounts(const JsonFields& fields, SideStatistics* side) {
  KV8_ASSIGN_OR_RETURN(side->count, fields.Count("count"));
  KV8_ASSIGN_OR_RETURN(side->finite_count, fields.Count("finite_count", side->count));
  KV8_ASSIGN_OR_RETURN(side->nonzero_count, fields.Count("nonzero_count", side->finite_count));
  return {};
}

Result<void> ReadSaturation(const JsonFields& fields, SideStatistics* side) {
  KV8_ASSIGN_OR_RETURN(side->saturation_checked_count, fields.Count("saturation_checked_count"));
  KV8_ASSIGN_OR_RETURN(side->saturated_count,
                       fields.Count("saturated_count", side->saturation_checked_count));
  KV8_ASSIGN_OR_RETURN(side->saturation_is_upper_bound, fields.Bool("saturation_is_upper_bound"));
  return {};
}

Result<void> ReadShards(const JsonFields& fields, SideStatistics* side) {
  KV8_ASSIGN_OR_RETURN(const JsonFields shards, fields.Object("shard_max_abs"));
  float highest = 0;
  for (const auto& [shard, value] : shards.json().items()) {
    KV8_ASSIGN_OR_RETURN(const float max_abs, Magnitude(shards, shard));
    side->shard_max_abs[shard] = max_abs;
    highest = std::fmax(highest, max_abs);
  }
  if (!side->shard_max_abs.empty() && highest != side->max_abs) {
    return fields.Bad("shard_max_abs",
                      fmt::format("has the maximum {}; \"max_abs\" is {}", highest, side->max_abs));
  }
  return {};
}

/// What follows from the measured values must stand there as it follows.
Result<void> CheckDerived(const JsonFields& fields, const Json& derived) {
  for (const auto& [key, expected] : derived.items()) {
    if (!fields.Has(key)) return fields.Bad(key, "is missing");
    const Json& actual = fields.json().at(key);
    if (!SameDerived(expected, actual)) {
      return fields.Bad(
          key, fmt::format("is {}; the measured values give {}", actual.dump(), expected.dump()));
    }
  }
  return {};
}

Result<SideStatistics> ReadMeasured(const JsonFields& fields) {
  SideStatistics side;
  KV8_RETURN_IF_ERROR(ReadCounts(fields, &side));
  KV8_ASSIGN_OR_RETURN(side.max_abs, Magnitude(fields, "max_abs"));
  KV8_ASSIGN_OR_RETURN(side.histogram, ReadHistogram(fields));
  KV8_RETURN_IF_ERROR(CheckHistogram(fields, side));
  KV8_RETURN_IF_ERROR(ReadShards(fields, &side));
  return side;
}

Json MeasuredFields(const SideStatistics& side) {
  return {{"max_abs", side.max_abs},
          {"count", side.count},
          {"finite_count", side.finite_count},
          {"nonzero_count", side.nonzero_count},
          {"shard_max_abs", Json(side.shard_max_abs)},
          {"histogram", SparseHistogram(side.histogram)}};
}

/// What the rules do to held-out values, side by side.
Json ComparedFields(const SideStatistics& fitted, const SideStatistics& held_out,
                    const ScaleRule& chosen) {
  Json rules = Json::array();
  for (const RuleOutcome& outcome : CompareRules(fitted, held_out, chosen)) {
    rules.push_back({{"rule", Describe(outcome.rule)},
                     {"scale", outcome.scale},
                     {"clipped_at_least", outcome.clipped.at_least},
                     {"clipped_at_most", outcome.clipped.at_most},
                     {"relative_error", outcome.relative_error}});
  }
  return {{"rules", rules}};
}

}  // namespace

Json SideToJson(const SideStatistics& side, const ScaleRule& rule) {
  Json json = DerivedFields(side, rule);
  json.update(MeasuredFields(side));
  json["saturation_checked_count"] = side.saturation_checked_count;
  json["saturated_count"] = side.saturated_count;
  json["saturation_is_upper_bound"] = side.saturation_is_upper_bound;
  return json;
}

Result<SideStatistics> SideFromJson(const JsonFields& fields, const ScaleRule& rule) {
  KV8_ASSIGN_OR_RETURN(SideStatistics side, ReadMeasured(fields));
  KV8_RETURN_IF_ERROR(ReadSaturation(fields, &side));
  KV8_RETURN_IF_ERROR(CheckDerived(fields, DerivedFields(side, rule)));
  return side;
}

Json HeldOutSideToJson(const SideStatistics& fitted, const SideStatistics& held_out,
                       const ScaleRule& chosen) {
  Json json = ComparedFields(fitted, held_out, chosen);
  json.update(MeasuredFields(held_out));
  return json;
}

Result<SideStatistics> HeldOutSideFromJson(const JsonFields& fields, const SideStatistics& fitted,
                                           const ScaleRule& chosen) {
  KV8_ASSIGN_OR_RETURN(SideStatistics side, ReadMeasured(fields));
  KV8_RETURN_IF_ERROR(CheckDerived(fields, ComparedFields(fitted, side, chosen)));
  return side;
}

}  // namespace kv8
