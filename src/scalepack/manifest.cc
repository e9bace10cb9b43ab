#include "scalepack/manifest.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/file.h"
#include "base/json_fields.h"
#include "scalepack/calibration_report.h"

namespace kv8 {
namespace {

constexpr int kManifestSchema = 1;
constexpr std::string_view kImportedKey = "imported_sha256";
constexpr std::uint64_t kMaxLayerId = 1'000'000;

Result<std::vector<std::string>> ReadNames(const JsonFields& file) {
  KV8_ASSIGN_OR_RETURN(const Json* list, file.Array("tensor_names"));
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Json& name : *list) {
    if (!name.is_string()) return file.Bad("tensor_names", "must hold strings");
    names.push_back(name.get<std::string>());
    if (!seen.insert(names.back()).second) {
      return file.Bad("tensor_names", fmt::format("lists {} twice", names.back()));
    }
  }
  KV8_ASSIGN_OR_RETURN(const std::uint64_t count, file.Count("tensor_count"));
  if (count != names.size()) {
    return file.Bad("tensor_count",
                    fmt::format("is {}; \"tensor_names\" has {}", count, names.size()));
  }
  return names;
}

Result<ManifestScaleFile> ReadScaleFileEntry(const JsonFields& file) {
  ManifestScaleFile out;
  KV8_ASSIGN_OR_RETURN(out.filename, file.String("filename"));
  // The extension keeps the name apart from every other file of a pack or checkpoint.
  if (!IsPlainFileName(out.filename) || !out.filename.ends_with(".safetensors")) {
    return file.Bad("filename", "must be a plain name that ends in .safetensors");
  }
  KV8_ASSIGN_OR_RETURN(out.sha256, file.Sha256("sha256"));
  KV8_ASSIGN_OR_RETURN(out.tensor_names, ReadNames(file));
  return out;
}

Result<void> ReadScaleFiles(const JsonFields& root, ScaleManifest* manifest) {
  KV8_ASSIGN_OR_RETURN(const JsonFields target, root.Object("scale_file"));
  KV8_ASSIGN_OR_RETURN(manifest->target, ReadScaleFileEntry(target));
  if (manifest->target.filename.starts_with(kDraftFirstPrefix)) {
    return target.Bad("filename", fmt::format("must not start with {}: drafters load such files",
                                              kDraftFirstPrefix));
  }
  if (!root.Has("draft_scale_file")) return {};
  KV8_ASSIGN_OR_RETURN(const JsonFields draft, root.Object("draft_scale_file"));
  KV8_ASSIGN_OR_RETURN(manifest->draft, ReadScaleFileEntry(draft));
  if (manifest->draft->filename != kDraftScaleFile) {
    return draft.Bad("filename", fmt::format("must be {}", kDraftScaleFile));
  }
  return {};
}

/// A positive FP32 value, written in whatever number of digits.
Result<float> ReadFloat(const JsonFields& fields, std::string_view key) {
  KV8_ASSIGN_OR_RETURN(const double value, fields.Number(key));
  if (!(value > 0) || value > std::numeric_limits<float>::max() || static_cast<float>(value) == 0) {
    return fields.Bad(key, "must be a positive FP32 number");
  }
  return static_cast<float>(value);
}

Result<KvSide> ReadSide(const JsonFields& entry) {
  const Result<std::string> kind = entry.String("kind");
  if (!kind.ok()) return kind.error();
  if (*kind == Name(KvSide::kKey)) return KvSide::kKey;
  if (*kind == Name(KvSide::kValue)) return KvSide::kValue;
  return entry.Bad("kind", "must be \"k\" or \"v\"");
}

Result<ManifestTensor> ReadTensor(const JsonFields& entry, const ScaleRule& rule, bool draft) {
  ManifestTensor tensor;
  KV8_ASSIGN_OR_RETURN(const std::uint64_t layer, entry.Count("layer", kMaxLayerId));
  KV8_ASSIGN_OR_RETURN(const KvSide side, ReadSide(entry));
  tensor.slot = {draft, static_cast<int>(layer), side};
  KV8_ASSIGN_OR_RETURN(tensor.scale, ReadFloat(entry, "scale"));
  if (!entry.Has("max_abs")) return tensor;
  KV8_ASSIGN_OR_RETURN(tensor.max_abs, ReadFloat(entry, "max_abs"));
  const float most = ScaleForMaxAbs(static_cast<double>(*tensor.max_abs) * rule.margin);
  const bool exact = rule.method == ScaleMethod::kMax;
  if (exact ? tensor.scale != most : tensor.scale > most) {
    return entry.Bad("scale", fmt::format("is {}; \"max_abs\" = {} gives {}{}", tensor.scale,
                                          *tensor.max_abs, exact ? "" : "at most ", most));
  }
  return tensor;
}

Result<void> ReadTensors(const JsonFields& root, std::string_view key, bool draft,
                         ScaleManifest* manifest) {
  if (!root.Has(key)) return {};
  KV8_ASSIGN_OR_RETURN(const Json* list, root.Array(key));
  if (list->empty()) return root.Bad(key, "must have one entry per scale, or be left out");
  std::set<ScaleSlot> seen;
  for (std::size_t i = 0; i < list->size(); ++i) {
    KV8_ASSIGN_OR_RETURN(const JsonFields entry,
                         JsonFields::Of((*list)[i], root.where(), fmt::format("{}[{}]", key, i)));
    KV8_ASSIGN_OR_RETURN(ManifestTensor tensor, ReadTensor(entry, manifest->rule, draft));
    if (!seen.insert(tensor.slot).second) return entry.Bad("layer", "and kind are listed twice");
    manifest->tensors.push_back(std::move(tensor));
  }
  return {};
}

Json ScaleFileToJson(const ManifestScaleFile& file) {
  return {{"filename", file.filename},
          {"sha256", file.sha256},
          {"tensor_names", file.tensor_names},
          {"tensor_count", file.tensor_names.size()}};
}

Json TensorToJson(const ManifestTensor& tensor) {
  Json json = tensor.summary;
  json["layer"] = tensor.slot.layer;
  json["kind"] = Name(tensor.slot.side);
  json["scale"] = tensor.scale;
  if (tensor.max_abs) json["max_abs"] = *tensor.max_abs;
  return json;
}

}  // namespace

Result<ScaleManifest> ParseManifest(const Json& json, std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(json, where, ""));
  KV8_ASSIGN_OR_RETURN(const std::uint64_t version, root.Count("schema_version"));
  if (version != kManifestSchema) {
    return root.Bad("schema_version", fmt::format("is {}; kv8 reads {}", version, kManifestSchema));
  }
  ScaleManifest manifest;
  KV8_ASSIGN_OR_RETURN(manifest.artifact_id, root.String("artifact_id"));
  KV8_ASSIGN_OR_RETURN(const JsonFields base, root.Object("base_checkpoint"));
  KV8_ASSIGN_OR_RETURN(manifest.base.index_sha256, base.Sha256("index_sha256"));
  if (base.Has("repo_id")) {
    KV8_ASSIGN_OR_RETURN(manifest.repo_id, base.String("repo_id"));
  }
  KV8_RETURN_IF_ERROR(ReadLineage(base, &manifest.base));
  KV8_ASSIGN_OR_RETURN(manifest.rule, ReadScaleRule(root));
  if (root.Has(kImportedKey)) {
    KV8_ASSIGN_OR_RETURN(manifest.imported_sha256, root.Sha256(kImportedKey));
  }
  KV8_RETURN_IF_ERROR(ReadScaleFiles(root, &manifest));
  KV8_RETURN_IF_ERROR(ReadTensors(root, "tensors", /*draft=*/false, &manifest));
  KV8_RETURN_IF_ERROR(ReadTensors(root, "draft_tensors", /*draft=*/true, &manifest));
  return manifest;
}

Json ManifestToJson(const ScaleManifest& manifest) {
  Json json = {
      {"schema_version", kManifestSchema},
      {"artifact_id", manifest.artifact_id},
      {"scale_contract", fmt::format("stored = e4m3fn(x / scale), saturating; scale = {} / 448 "
                                     "rounded up to FP32; real = stored * scale",
                                     manifest.limit_name())},
      {"loader_contract", "one FP32 scalar per QSA layer and side; every one required"},
      {"base_checkpoint",
       {{"repo_id", manifest.repo_id}, {"index_sha256", manifest.base.index_sha256}}},
      {"scale_file", ScaleFileToJson(manifest.target)}};
  WriteLineage(manifest.base, &json["base_checkpoint"]);
  WriteScaleRule(manifest.rule, &json);
  if (!manifest.imported_sha256.empty()) json[std::string(kImportedKey)] = manifest.imported_sha256;
  if (manifest.draft) json["draft_scale_file"] = ScaleFileToJson(*manifest.draft);
  for (const ManifestTensor& tensor : manifest.tensors) {
    json[tensor.slot.draft ? "draft_tensors" : "tensors"].push_back(TensorToJson(tensor));
  }
  return json;
}

}  // namespace kv8
