#include <fmt/format.h>

#include "base/json_fields.h"
#include "numeric/e4m3.h"
#include "scalepack/calibration_report.h"
#include "scalepack/scale_names.h"
#include "scalepack/side_json.h"

namespace kv8 {
namespace {

constexpr int kReportSchema = 1;
constexpr std::uint64_t kMaxReportBytes = 256ull << 20;
/// More layers than any model of the family; bounds what a hostile report can make us allocate.
constexpr std::uint64_t kMaxLayers = 1024;

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
                           SideFromJson(entry, report->rule));
    }
    report->layers.push_back(std::move(statistics));
  }
  return {};
}

Result<void> ReadHeldOut(const JsonFields& root, CalibrationReport* report) {
  constexpr std::string_view kKey = "held_out";
  if (!root.Has(kKey)) return {};
  KV8_ASSIGN_OR_RETURN(const JsonFields object, root.Object(kKey));
  HeldOut& held_out = report->held_out.emplace();
  KV8_ASSIGN_OR_RETURN(const std::uint64_t percent, object.Count("percent", kMaxHeldOutPercent));
  if (percent == 0) return object.Bad("percent", "must be at least 1");
  held_out.percent = static_cast<int>(percent);
  KV8_ASSIGN_OR_RETURN(held_out.measured.documents, object.Count("records"));
  KV8_ASSIGN_OR_RETURN(held_out.measured.tokens, object.Count("tokens"));
  KV8_ASSIGN_OR_RETURN(const JsonFields tensors, object.Object("tensors"));
  if (tensors.json().size() != 2 * report->layers.size()) {
    return object.Bad("tensors",
                      fmt::format("has {} entries; {} layers have {}", tensors.json().size(),
                                  report->layers.size(), 2 * report->layers.size()));
  }
  for (const LayerStatistics& fitted : report->layers) {
    LayerStatistics layer;
    layer.layer = fitted.layer;
    for (const auto& [side, from, to] : {std::tuple{KvSide::kKey, &fitted.k, &layer.k},
                                         std::tuple{KvSide::kValue, &fitted.v, &layer.v}}) {
      const std::string name = ReportTensorName(report->target_layers, {false, layer.layer, side});
      KV8_ASSIGN_OR_RETURN(const JsonFields entry, tensors.Object(name));
      KV8_ASSIGN_OR_RETURN(*to, HeldOutSideFromJson(entry, *from, report->rule));
    }
    held_out.measured.layers.push_back(std::move(layer));
  }
  return {};
}

Json HeldOutToJson(const CalibrationReport& report, const HeldOut& held_out) {
  Json tensors = Json::object();
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const LayerStatistics& fitted = report.layers[i];
    const LayerStatistics& layer = held_out.measured.layers[i];
    const ScaleSlot k{false, layer.layer, KvSide::kKey};
    const ScaleSlot v{false, layer.layer, KvSide::kValue};
    tensors[ReportTensorName(report.target_layers, k)] =
        HeldOutSideToJson(fitted.k, layer.k, report.rule);
    tensors[ReportTensorName(report.target_layers, v)] =
        HeldOutSideToJson(fitted.v, layer.v, report.rule);
  }
  return {{"percent", held_out.percent},
          {"records", held_out.measured.documents},
          {"tokens", held_out.measured.tokens},
          {"tensors", std::move(tensors)}};
}

std::string MethodText(const ScaleRule& rule) {
  if (rule == ScaleRule{}) return "smallest FP32 scale with 448 * scale >= max_abs";
  return "smallest FP32 scale with 448 * scale >= clip limit; " + Describe(rule);
}

}  // namespace

Json ReportToJson(const CalibrationReport& report) {
  Json files = Json::array();
  for (const std::string& hash : report.corpus_sha256) files.push_back({{"sha256", hash}});
  Json ids = Json::array();
  Json tensors = Json::object();
  for (const LayerStatistics& layer : report.layers) {
    ids.push_back(layer.layer);
    const ScaleSlot k{false, layer.layer, KvSide::kKey};
    const ScaleSlot v{false, layer.layer, KvSide::kValue};
    tensors[ReportTensorName(report.target_layers, k)] = SideToJson(layer.k, report.rule);
    tensors[ReportTensorName(report.target_layers, v)] = SideToJson(layer.v, report.rule);
  }
  Json checkpoint = {{"index_sha256", report.base.index_sha256},
                     {"layer_prefix", report.layer_prefix},
                     {"num_hidden_layers", report.target_layers}};
  WriteLineage(report.base, &checkpoint);
  Json json = {
      {"schema_version", kReportSchema},
      {"converter_contract", "e4m3fn(x/scale): FP32 divide, round to nearest even, saturate"},
      {"scale_method", MethodText(report.rule)},
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
  WriteScaleRule(report.rule, &json);
  if (report.held_out) json["held_out"] = HeldOutToJson(report, *report.held_out);
  return json;
}

Result<CalibrationReport> ReportFromJson(const Json& json, std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(json, where, ""));
  CalibrationReport report;
  KV8_RETURN_IF_ERROR(CheckConstants(root));
  KV8_ASSIGN_OR_RETURN(report.rule, ReadScaleRule(root));
  KV8_RETURN_IF_ERROR(ReadBinding(root, &report));
  KV8_RETURN_IF_ERROR(ReadCorpus(root, &report));
  KV8_RETURN_IF_ERROR(ReadLayers(root, &report));
  KV8_RETURN_IF_ERROR(ReadHeldOut(root, &report));
  return report;
}

Result<CalibrationReport> ReadReport(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kMaxReportBytes));
  return ReportFromJson(json, path.string());
}

}  // namespace kv8
