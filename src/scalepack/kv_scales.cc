#include "scalepack/kv_scales.h"

#include <fmt/format.h>

#include "scalepack/found_scales.h"
#include "scalepack/provenance.h"
#include "scalepack/scale_bounds.h"
#include "scalepack/scale_file.h"
#include "scalepack/scale_pack.h"

namespace kv8 {
namespace {

constexpr std::string_view kDraftRemedy =
    "run `kv8 calibrate` on this checkpoint and `kv8 pack` its report, or supply the report to "
    "`kv8 materialize --draft-report REPORT.json`, or leave --speculative-tokens out";

Result<KvScales> LoadOwnScales(const Checkpoint& checkpoint, const LineageOptions& lineage) {
  KV8_ASSIGN_OR_RETURN(const FoundScales found, FindOwnScales(checkpoint));
  KV8_ASSIGN_OR_RETURN(KvScales scales, AssembleScales(checkpoint, found, checkpoint.dir()));
  KV8_ASSIGN_OR_RETURN(const auto provenance, CheckProvenance(checkpoint, found, lineage));
  KV8_RETURN_IF_ERROR(CheckScaleBounds(checkpoint, found));
  scales.pack_id = provenance ? provenance->artifact_id : "in-checkpoint";
  if (provenance) scales.lineage = provenance->lineage;
  return scales;
}

Result<KvScales> LoadPackScales(const Checkpoint& checkpoint, const std::filesystem::path& dir,
                                const LineageOptions& lineage) {
  KV8_ASSIGN_OR_RETURN(const ScalePack pack, ReadScalePack(dir));
  return BindScalePack(pack, checkpoint, lineage);
}

Result<void> CheckDraft(const Checkpoint& checkpoint, const KvScales& scales,
                        const std::filesystem::path& source) {
  if (!checkpoint.config().draft) {
    return Error{Code::kInvalidArgument, "the checkpoint has no draft head",
                 checkpoint.dir().string(), "leave --speculative-tokens out"};
  }
  if (scales.draft) return {};
  std::vector<std::string> names;
  for (const ScaleSlot& slot : DraftSlots()) {
    names.push_back(ScaleTensorName(checkpoint.layer_prefix(), slot));
  }
  return Error{Code::kNotFound,
               fmt::format("speculation needs the draft's scales; {} are missing",
                           fmt::join(names, " and ")),
               (source / kDraftScaleFile).string(), std::string(kDraftRemedy)};
}

}  // namespace

Result<KvScales> LoadKvScales(const Checkpoint& checkpoint,
                              const std::optional<std::filesystem::path>& scale_pack,
                              bool need_draft, const LineageOptions& lineage) {
  KV8_ASSIGN_OR_RETURN(KvScales scales, scale_pack
                                            ? LoadPackScales(checkpoint, *scale_pack, lineage)
                                            : LoadOwnScales(checkpoint, lineage));
  if (need_draft) {
    KV8_RETURN_IF_ERROR(
        CheckDraft(checkpoint, scales, scale_pack ? *scale_pack : checkpoint.dir()));
  }
  return scales;
}

std::vector<LayerScales> ListKvScales(const Checkpoint& checkpoint) {
  std::map<std::pair<bool, int>, LayerScales> layers;
  for (const int layer : checkpoint.config().KvLayerNumbers()) {
    layers[{false, layer}] = {.draft = false, .layer = layer, .k = {}, .v = {}, .file = {}};
  }
  if (checkpoint.config().draft) {
    layers[{true, 0}] = {.draft = true, .layer = 0, .k = {}, .v = {}, .file = {}};
  }
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto slot = ParseScaleTensorName(name);
    const auto it = slot ? layers.find({slot->draft, slot->layer}) : layers.end();
    if (it == layers.end()) continue;
    const auto file = checkpoint.FileOf(name);
    it->second.file = file.filename().string();
    const auto value = ReadScale(tensor, name, file.string());
    if (value.ok()) (slot->side == KvSide::kKey ? it->second.k : it->second.v) = *value;
  }
  std::vector<LayerScales> list;
  for (const auto& [key, layer] : layers) list.push_back(layer);
  return list;
}

}  // namespace kv8
