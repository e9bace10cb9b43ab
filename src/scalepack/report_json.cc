#include <fmt/format.h>

#include <cmath>

#include "base/checked.h"
#include "base/json_fields.h"
#include "numeric/e4m3.h"
#include "scalepack/calibration_report.h"
#include "scalepack/scale_names.h"

namespace kv8 {
namespace {

constexpr int kReportSchema = 1;
constexpr std::uint64_t kMaxReportBytes = 256ull << 20;
/// More layers than any model of the family; bounds what a hostile report can make us allocate.
constexpr std::uint64_t kMaxLayers = 1024;
/// exp2 may differ in the last place between C libraries; everything else is exact.
constexpr double kDerivedTolerance = 1e-9;

constexpr std::string_view kCapture =
    "K after norm and RoPE, V as projected, every position; FP32, prefill with an FP32 cache";
constexpr std::string_view kSaturationDefinition =
    "values with |x| > 448 * scale that an E4M3 cache with these scales clipped, of "
    "saturation_checked_count stored in a second pass; null without one";

Json HistogramSpec() {
  return {{"bins", LogHistogram::kBins},
          {"log2_min", LogHistogram::kLog2Min},
          {"log2_max", LogHistogram::kLog2Max}};
}

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
Json DerivedFields(const SideStatistics& side) {
  const float scale = ScaleOrZero(side.max_abs);
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
  return {{"scale", scale},
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

Result<SideStatistics> ReadSideStatistics(const JsonFields& fields) {
  SideStatistics side;
  KV8_RETURN_IF_ERROR(ReadCounts(fields, &side));
  KV8_ASSIGN_OR_RETURN(side.max_abs, Magnitude(fields, "max_abs"));
  KV8_ASSIGN_OR_RETURN(side.histogram, ReadHistogram(fields));
  KV8_RETURN_IF_ERROR(CheckHistogram(fields, side));
  KV8_RETURN_IF_ERROR(ReadShards(fields, &side));
  const Json derived = DerivedFields(side);
  for (const auto& [key, expected] : derived.items()) {
    if (!fields.Has(key)) return fields.Bad(key, "is missing");
    const Json& actual = fields.json().at(key);
    if (!SameDerived(expected, actual)) {
      return fields.Bad(
          key, fmt::format("is {}; the measured values give {}", actual.dump(), expected.dump()));
    }
  }
  return side;
}

Result<void> CheckConstants(const JsonFields& root) {
  KV8_ASSIGN_OR_RETURN(const std::uint64_t version, root.Count("schema_version"));
  if (version != kReportSchema) {
    return root.Bad("schema_version", fmt::format("is {}; kv8 reads {}", version, kReportSchema));
  }
  KV8_ASSIGN_OR_RETURN(const double limit, root.Number("e4m3_max"));
  if (limit != kE4M3Max) return root.Bad("e4m3_max", fmt::format("is {}; must be 448", limit));
  KV8_ASSIGN_OR_RETURN(const JsonFields spec, root.Object("histogram"));
  const Json wanted = HistogramSpec();
  for (const auto& [key, expected] : wanted.items()) {
    KV8_ASSIGN_OR_RETURN(const double value, spec.Number(key));
    if (value != expected.get<double>()) {
      return spec.Bad(key, fmt::format("is {}; kv8 merges only {}", value, expected.dump()));
    }
  }
  return {};
}

Result<void> ReadBinding(const JsonFields& root, CalibrationReport* report) {
  KV8_ASSIGN_OR_RETURN(const JsonFields checkpoint, root.Object("checkpoint"));
  KV8_ASSIGN_OR_RETURN(report->base.index_sha256, checkpoint.String("index_sha256"));
  // A checkpoint in a single file has no index and so no hash of one.
  if (!report->base.index_sha256.empty() && !IsSha256Hex(report->base.index_sha256)) {
    return checkpoint.Bad("index_sha256", "must be a SHA-256 of 64 lower-case hex digits or empty");
  }
  KV8_RETURN_IF_ERROR(ReadLineage(checkpoint, &report->base));
  for (const auto& [key, value] : {std::pair{"kv_weights_sha256", &report->base.kv_weights_sha256},
                                   std::pair{"weights_sha256", &report->base.weights_sha256}}) {
    if (!value->empty()) continue;
    return checkpoint.Bad(key, "is missing: an older kv8 measured it; run `kv8 calibrate` again");
  }
  KV8_ASSIGN_OR_RETURN(report->layer_prefix, checkpoint.String("layer_prefix"));
  KV8_ASSIGN_OR_RETURN(const std::uint64_t layers,
                       checkpoint.Count("num_hidden_layers", 1'000'000));
  report->target_layers = static_cast<int>(layers);
  return {};
}

Result<void> ReadCorpus(const JsonFields& root, CalibrationReport* report) {
  KV8_ASSIGN_OR_RETURN(const Json* files, root.Array("input_files"));
  for (const Json& file : *files) {
    KV8_ASSIGN_OR_RETURN(const JsonFields entry,
                         JsonFields::Of(file, root.where(), root.PathOf("input_files[]")));
    KV8_ASSIGN_OR_RETURN(std::string hash, entry.Sha256("sha256"));
    report->corpus_sha256.push_back(std::move(hash));
  }
  KV8_ASSIGN_OR_RETURN(report->documents, root.Count("records"));
  KV8_ASSIGN_OR_RETURN(report->tokens, root.Count("tokens"));
  KV8_ASSIGN_OR_RETURN(report->partial_corpus, root.Bool("partial_corpus"));
  return {};
}

Result<std::vector<int>> ReadLayerIds(const JsonFields& root, int target_layers) {
  constexpr std::string_view kKey = "qsa_layer_ids";
  KV8_ASSIGN_OR_RETURN(const Json* ids, root.Array(kKey));
  if (ids->size() > kMaxLayers) {
    return root.Bad(kKey,
                    fmt::format("has {} layers; at most {} are read", ids->size(), kMaxLayers));
  }
  std::vector<int> layers;
  for (const Json& id : *ids) {
    const auto layer = AsCount(id);
    const bool valid = layer && *layer <= static_cast<std::uint64_t>(target_layers);
    if (!valid || (!layers.empty() && id.get<int>() <= layers.back())) {
      return root.Bad(kKey, fmt::format("must hold ascending layer ids up to {} (the draft layer)",
                                        target_layers));
    }
    layers.push_back(id.get<int>());
  }
  return layers;
}

Result<void> ReadLayers(const JsonFields& root, CalibrationReport* report) {
  KV8_ASSIGN_OR_RETURN(const std::vector<int> ids, ReadLayerIds(root, report->target_layers));
  KV8_ASSIGN_OR_RETURN(const std::uint64_t tensor_count, root.Count("tensor_count"));
  KV8_ASSIGN_OR_RETURN(const JsonFields tensors, root.Object("tensors"));
  if (tensor_count != 2 * ids.size() || tensors.json().size() != tensor_count) {
    return root.Bad("tensor_count",
                    fmt::format("is {} with {} entries in \"tensors\"; {} layers have {}",
                                tensor_count, tensors.json().size(), ids.size(), 2 * ids.size()));
  }
  for (const int layer : ids) {
    LayerStatistics statistics;
    statistics.layer = layer;
    for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
      const std::string name = ReportTensorName(report->target_layers, {false, layer, side});
      KV8_ASSIGN_OR_RETURN(const JsonFields entry, tensors.Object(name));
      KV8_ASSIGN_OR_RETURN((side == KvSide::kKey ? statistics.k : statistics.v),
                           ReadSideStatistics(entry));
    }
    report->layers.push_back(std::move(statistics));
  }
  return {};
}

}  // namespace

Json SideToJson(const SideStatistics& side) {
  Json json = DerivedFields(side);
  json["max_abs"] = side.max_abs;
  json["count"] = side.count;
  json["finite_count"] = side.finite_count;
  json["nonzero_count"] = side.nonzero_count;
  json["saturation_checked_count"] = side.saturation_checked_count;
  json["saturated_count"] = side.saturated_count;
  json["saturation_is_upper_bound"] = side.saturation_is_upper_bound;
  json["shard_max_abs"] = Json(side.shard_max_abs);
  json["histogram"] = SparseHistogram(side.histogram);
  return json;
}

Json ReportToJson(const CalibrationReport& report) {
  Json files = Json::array();
  for (const std::string& hash : report.corpus_sha256) files.push_back({{"sha256", hash}});
  Json ids = Json::array();
  Json tensors = Json::object();
  for (const LayerStatistics& layer : report.layers) {
    ids.push_back(layer.layer);
    const ScaleSlot k{false, layer.layer, KvSide::kKey};
    const ScaleSlot v{false, layer.layer, KvSide::kValue};
    tensors[ReportTensorName(report.target_layers, k)] = SideToJson(layer.k);
    tensors[ReportTensorName(report.target_layers, v)] = SideToJson(layer.v);
  }
  Json checkpoint = {{"index_sha256", report.base.index_sha256},
                     {"layer_prefix", report.layer_prefix},
                     {"num_hidden_layers", report.target_layers}};
  WriteLineage(report.base, &checkpoint);
  return {{"schema_version", kReportSchema},
          {"converter_contract", "e4m3fn(x/scale): FP32 divide, round to nearest even, saturate"},
          {"scale_method", "smallest FP32 scale with 448 * scale >= max_abs"},
          {"scale_storage", "float32 scalar"},
          {"e4m3_max", kE4M3Max},
          {"capture", kCapture},
          {"saturation_definition", kSaturationDefinition},
          {"histogram", HistogramSpec()},
          {"checkpoint", std::move(checkpoint)},
          {"input_files", files},
          {"excluded_corpus_shards", Json::array()},
          {"records", report.documents},
          {"tokens", report.tokens},
          {"partial_corpus", report.partial_corpus},
          {"qsa_layer_ids", ids},
          {"tensor_count", tensors.size()},
          {"tensors", tensors}};
}

Result<CalibrationReport> ReportFromJson(const Json& json, std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(json, where, ""));
  CalibrationReport report;
  KV8_RETURN_IF_ERROR(CheckConstants(root));
  KV8_RETURN_IF_ERROR(ReadBinding(root, &report));
  KV8_RETURN_IF_ERROR(ReadCorpus(root, &report));
  KV8_RETURN_IF_ERROR(ReadLayers(root, &report));
  return report;
}

Result<CalibrationReport> ReadReport(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kMaxReportBytes));
  return ReportFromJson(json, path.string());
}

}  // namespace kv8
