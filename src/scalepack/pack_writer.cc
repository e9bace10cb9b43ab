#include "scalepack/pack_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/file.h"
#include "base/output_path.h"
#include "base/sha256.h"
#include "scalepack/found_scales.h"
#include "scalepack/manifest.h"
#include "scalepack/pack_readme.h"
#include "scalepack/scale_bounds.h"
#include "scalepack/scale_names.h"
#include "scalepack/sha256sums.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCalibrateAgain = "run `kv8 calibrate` on this checkpoint";

/// Keys of a report's entry that the manifest repeats, so that a pack can be judged by itself.
constexpr std::array<std::string_view, 6> kSummaryKeys = {
    "p99_9_abs_upper_bound", "p99_99_abs_upper_bound",      "saturated_count",
    "saturation_ratio",      "shard_scale_min_over_global", "shard_scale_max_over_global"};

Error ReportError(Code code, std::string what, std::string_view where) {
  return Error{code, std::move(what), std::string(where), std::string(kCalibrateAgain)};
}

Result<void> CheckReportBinding(const CalibrationReport& report, const Checkpoint& checkpoint,
                                const WeightsHashOptions& hash) {
  const auto compare = [&checkpoint](std::string_view what, const std::string& reported,
                                     const std::string& actual) -> Result<void> {
    if (reported == actual) return {};
    return ReportError(Code::kMismatch,
                       fmt::format("the report is of a checkpoint whose {} is {}; here it is {}",
                                   what, reported, actual),
                       checkpoint.dir().string());
  };
  KV8_RETURN_IF_ERROR(compare("layer prefix", report.layer_prefix, checkpoint.layer_prefix()));
  KV8_RETURN_IF_ERROR(compare("layer count", fmt::to_string(report.target_layers),
                              fmt::to_string(checkpoint.config().layer_count())));
  const auto match =
      CheckLineage(report.base, checkpoint, {.accept = false, .hash = hash}, "the report is of",
                   checkpoint.dir().string(), std::string(kCalibrateAgain));
  return match.ok() ? Result<void>() : match.error();
}

Result<void> CheckPackable(const Checkpoint& checkpoint) {
  KV8_RETURN_IF_ERROR(RefuseOwnScales(checkpoint));
  if (!checkpoint.index_sha256().empty()) return {};
  return Error{Code::kInvalidArgument, "the checkpoint has no index, which a pack binds to",
               (checkpoint.dir() / kIndexFile).string(),
               "use a checkpoint in the sharded layout, with its index"};
}

/// A side whose statistics can become a scale.
Result<void> CheckUsable(const SideStatistics& side, const std::string& name) {
  if (side.finite_count != side.count) {
    return ReportError(
        Code::kInvalidArgument,
        fmt::format("{} of {} values are not finite", side.count - side.finite_count, side.count),
        name);
  }
  if (!std::isfinite(side.max_abs) || side.max_abs <= 0) {
    return ReportError(
        Code::kInvalidArgument,
        fmt::format("max_abs is {}; a scale needs a finite, positive one", side.max_abs), name);
  }
  return {};
}

const LayerStatistics* FindLayer(const CalibrationReport& report, int layer) {
  for (const LayerStatistics& statistics : report.layers) {
    if (statistics.layer == layer) return &statistics;
  }
  return nullptr;
}

Result<ManifestTensor> TensorFor(const CalibrationReport& report, const ScaleSlot& slot) {
  const int id = slot.draft ? report.target_layers : slot.layer;
  const std::string name = ReportTensorName(report.target_layers, slot);
  const LayerStatistics* layer = FindLayer(report, id);
  if (layer == nullptr) return ReportError(Code::kNotFound, "the report lacks this tensor", name);
  const SideStatistics& side = slot.side == KvSide::kKey ? layer->k : layer->v;
  KV8_RETURN_IF_ERROR(CheckUsable(side, name));
  ManifestTensor tensor{slot, ScaleFor(side, report.rule), side.max_abs, Json::object()};
  if (tensor.scale == 0) {
    return Error{
        Code::kInvalidArgument,
        fmt::format("\"{}\" gives no scale: it lies among the zeros", Describe(report.rule)), name,
        "use a higher percentile"};
  }
  const Json entry = SideToJson(side, report.rule);
  for (const std::string_view key : kSummaryKeys) tensor.summary[std::string(key)] = entry.at(key);
  return tensor;
}

Result<void> CheckNoOtherLayers(const CalibrationReport& report, const Checkpoint& checkpoint) {
  const ModelSpec& config = checkpoint.config();
  for (const LayerStatistics& layer : report.layers) {
    const bool draft = layer.layer == config.layer_count();
    const bool known =
        draft ? config.draft.has_value()
              : layer.layer < config.layer_count() &&
                    config.layers[static_cast<std::size_t>(layer.layer)].kind == LayerKind::kQsa;
    if (known) continue;
    return ReportError(
        Code::kMismatch,
        fmt::format("the report has layer {}, which is no QSA layer here", layer.layer),
        checkpoint.dir().string());
  }
  return {};
}

Result<std::vector<ManifestTensor>> TensorsFor(const CalibrationReport& report,
                                               const std::vector<ScaleSlot>& slots) {
  std::vector<ManifestTensor> tensors;
  for (const ScaleSlot& slot : slots) {
    KV8_ASSIGN_OR_RETURN(ManifestTensor tensor, TensorFor(report, slot));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// The values of `tensors` as a shard of `checkpoint`.
Result<ScaleFile> ShardOf(const std::vector<ManifestTensor>& tensors, const Checkpoint& checkpoint,
                          std::map<std::string, std::string, std::less<>> metadata) {
  ScaleFile shard{.scales = {}, .metadata = std::move(metadata)};
  for (const ManifestTensor& tensor : tensors) {
    const std::string name = ScaleTensorName(checkpoint.layer_prefix(), tensor.slot);
    KV8_RETURN_IF_ERROR(
        CheckScaleBounds(checkpoint, {{tensor.slot, {name, checkpoint.dir(), tensor.scale}}}));
    shard.scales[name] = tensor.scale;
  }
  return shard;
}

/// Serialises a shard and describes it for the manifest.
ManifestScaleFile Describe(const ScaleFile& shard, std::string_view filename, std::string* bytes) {
  *bytes = SerializeScaleFile(shard);
  ManifestScaleFile entry{std::string(filename), Sha256Hex(*bytes), {}};
  for (const auto& [name, value] : shard.scales) entry.tensor_names.push_back(name);
  return entry;
}

/// The files of a pack in memory: a few kilobytes.
struct PackImage {
  ScaleManifest manifest;
  std::map<std::string, std::string, std::less<>> files;
};

/// A name that follows from the content, so that equal packs have equal names.
std::string ArtifactId(const ScaleManifest& manifest) {
  constexpr std::size_t kDigits = 12;
  const std::string hashes =
      manifest.target.sha256 + (manifest.draft ? manifest.draft->sha256 : std::string());
  return "kv8-e4m3-kvscales-" + Sha256Hex(hashes).substr(0, kDigits);
}

/// "tiny" for "models/tiny", "models/tiny/" and, inside of it, ".".
Result<std::string> NameOfDirectory(const fs::path& dir) {
  std::error_code error;
  const fs::path absolute = fs::absolute(dir, error).lexically_normal();
  if (error) return SystemError(dir, "resolve", error.value());
  return (absolute.has_filename() ? absolute : absolute.parent_path()).filename().string();
}

/// Completes `manifest`, which says where `target` and `draft` come from, and makes the files.
Result<PackImage> BuildPack(ScaleManifest origin, std::vector<ManifestTensor> target,
                            const std::vector<ManifestTensor>& draft,
                            const Checkpoint& checkpoint) {
  PackImage pack{std::move(origin), {}};
  ScaleManifest& manifest = pack.manifest;
  if (manifest.repo_id.empty()) {
    KV8_ASSIGN_OR_RETURN(manifest.repo_id, NameOfDirectory(checkpoint.dir()));
  }
  KV8_ASSIGN_OR_RETURN(const ScaleFile shard,
                       ShardOf(target, checkpoint, TargetMetadata(manifest.limit_name())));
  manifest.target = Describe(shard, kTargetScaleFile, &pack.files[std::string(kTargetScaleFile)]);
  if (!draft.empty()) {
    KV8_ASSIGN_OR_RETURN(const ScaleFile drafts, ShardOf(draft, checkpoint, DraftMetadata()));
    manifest.draft = Describe(drafts, kDraftScaleFile, &pack.files[std::string(kDraftScaleFile)]);
  }
  manifest.tensors = std::move(target);
  manifest.tensors.insert(manifest.tensors.end(), draft.begin(), draft.end());
  manifest.artifact_id = ArtifactId(manifest);
  pack.files[std::string(kManifestFile)] = DumpJson(ManifestToJson(manifest));
  pack.files[std::string(kReadmeFile)] = PackReadme(manifest);
  Sha256Sums sums;
  for (const auto& [name, content] : pack.files) sums[name] = Sha256Hex(content);
  pack.files[std::string(kSumsFile)] = FormatSha256Sums(sums);
  return pack;
}

Result<PackSummary> Publish(const PackImage& pack, const fs::path& output_dir,
                            const StepHook& hook) {
  KV8_ASSIGN_OR_RETURN(auto staged, StagedDirectory::Create(output_dir, hook));
  for (const auto& [name, content] : pack.files) {
    KV8_RETURN_IF_ERROR(staged.Write(name, content));
  }
  KV8_RETURN_IF_ERROR(staged.Publish());
  const auto& draft = pack.manifest.draft;
  return PackSummary{pack.manifest.artifact_id, pack.manifest.target.tensor_names.size(),
                     draft ? draft->tensor_names.size() : 0};
}

/// All that the model needs, and nothing that it has no place for.
Result<void> CheckImported(const SidecarFile& sidecar, const std::string& where,
                           const Checkpoint& checkpoint) {
  std::vector<ScaleSlot> known = TargetSlots(checkpoint);
  if (checkpoint.config().draft) {
    for (const ScaleSlot& slot : DraftSlots()) known.push_back(slot);
  }
  FoundScales found;
  for (const auto& [slot, value] : sidecar.scales) {
    if (std::ranges::find(known, slot) == known.end()) {
      return Error{Code::kMismatch,
                   fmt::format("layer {} is no QSA layer of this checkpoint",
                               slot.draft ? checkpoint.config().layer_count() : slot.layer),
                   where, "use the file of this checkpoint"};
    }
    found[slot] = {ScaleTensorName(checkpoint.layer_prefix(), slot), where, value};
  }
  auto complete = AssembleScales(checkpoint, found, where);
  return complete.ok() ? Result<void>() : std::move(complete).error();
}

}  // namespace

Result<PackSummary> WriteImportedPack(const SidecarFile& sidecar, const std::string& where,
                                      const Checkpoint& checkpoint, const fs::path& output_dir,
                                      const PackOptions& options) {
  KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(output_dir, checkpoint.dir()));
  KV8_RETURN_IF_ERROR(CheckPackable(checkpoint));
  KV8_RETURN_IF_ERROR(CheckImported(sidecar, where, checkpoint));
  ScaleManifest origin{.artifact_id = {}, .repo_id = options.repo_id};
  KV8_ASSIGN_OR_RETURN(origin.base, LineageOf(checkpoint, options.hash));
  origin.imported_sha256 = sidecar.sha256;
  std::vector<ManifestTensor> target, draft;
  for (const auto& [slot, value] : sidecar.scales) {
    (slot.draft ? draft : target).push_back({slot, value, std::nullopt, Json::object()});
  }
  KV8_ASSIGN_OR_RETURN(const PackImage pack,
                       BuildPack(std::move(origin), std::move(target), draft, checkpoint));
  return Publish(pack, output_dir, options.hook);
}

Result<PackSummary> WritePack(const CalibrationReport& report, const Checkpoint& checkpoint,
                              const fs::path& output_dir, const PackOptions& options) {
  KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(output_dir, checkpoint.dir()));
  KV8_RETURN_IF_ERROR(CheckPackable(checkpoint));
  KV8_RETURN_IF_ERROR(CheckReportBinding(report, checkpoint, options.hash));
  KV8_RETURN_IF_ERROR(CheckNoOtherLayers(report, checkpoint));
  KV8_ASSIGN_OR_RETURN(auto target, TensorsFor(report, TargetSlots(checkpoint)));
  std::vector<ManifestTensor> draft;
  if (FindLayer(report, report.target_layers) != nullptr) {
    KV8_ASSIGN_OR_RETURN(draft, TensorsFor(report, DraftSlots()));
  }
  ScaleManifest origin{.artifact_id = {}, .repo_id = options.repo_id};
  origin.base = report.base;
  origin.rule = report.rule;
  KV8_ASSIGN_OR_RETURN(const PackImage pack,
                       BuildPack(std::move(origin), std::move(target), draft, checkpoint));
  return Publish(pack, output_dir, options.hook);
}

Result<ScaleFile> DraftScalesFromReport(const CalibrationReport& report,
                                        const Checkpoint& checkpoint,
                                        const WeightsHashOptions& hash) {
  KV8_RETURN_IF_ERROR(CheckReportBinding(report, checkpoint, hash));
  KV8_ASSIGN_OR_RETURN(const auto tensors, TensorsFor(report, DraftSlots()));
  return ShardOf(tensors, checkpoint, DraftMetadata());
}

}  // namespace kv8
