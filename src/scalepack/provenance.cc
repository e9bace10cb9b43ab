#include "scalepack/provenance.h"

#include <fmt/format.h>

#include <set>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "checkpoint/safetensors.h"
#include "scalepack/scale_file.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr int kProvenanceSchema = 1;
constexpr std::uint64_t kMaxProvenanceBytes = 16 << 20;
constexpr std::string_view kViewRemedy =
    "run `kv8 materialize` again from the base checkpoint and its pack";

Result<std::string> OptionalSha256(const JsonFields& fields, std::string_view key) {
  if (!fields.Has(key) || fields.json().at(key).is_null()) return std::string();
  return fields.Sha256(key);
}

/// Views say in the file itself when their scales are stand-ins.
Result<void> CheckCalibrated(const JsonFields& root) {
  if (root.Has("unit_scale_negative_control")) {
    KV8_ASSIGN_OR_RETURN(const bool unit, root.Bool("unit_scale_negative_control"));
    if (unit) return root.Bad("unit_scale_negative_control", "is true: the scales are stand-ins");
  }
  if (root.Has("mtp_scale_source") && !root.json().at("mtp_scale_source").is_null()) {
    KV8_ASSIGN_OR_RETURN(const std::string source, root.String("mtp_scale_source"));
    if (source != kDraftSourceCalibrated) {
      return root.Bad("mtp_scale_source", fmt::format("is \"{}\"; only \"{}\" can be used", source,
                                                      kDraftSourceCalibrated));
    }
  }
  return {};
}

Result<void> ReadShards(const JsonFields& root, Provenance* out) {
  // The older tool knows one scale file only.
  const bool older = root.Has("scale_file_sha256") && !root.Has("target_scale_file_sha256");
  KV8_ASSIGN_OR_RETURN(out->target.sha256,
                       root.Sha256(older ? "scale_file_sha256" : "target_scale_file_sha256"));
  if (!older) {
    KV8_ASSIGN_OR_RETURN(out->merged_index_sha256, root.Sha256("merged_index_sha256"));
  }
  KV8_ASSIGN_OR_RETURN(const std::string draft, OptionalSha256(root, "mtp_scale_file_sha256"));
  if (!draft.empty()) out->draft = ProvenanceShard{draft, {}};
  return {};
}

Error ViewError(Code code, const fs::path& where, std::string what) {
  return Error{code, std::move(what), where.string(), std::string(kViewRemedy)};
}

/// All scales of one model (target or draft) lie in one file with the promised hash and marker.
Result<void> CheckShard(const FoundScales& found, bool draft, const ProvenanceShard* promised,
                        const fs::path& provenance_file) {
  std::set<fs::path> files;
  for (const auto& [slot, scale] : found) {
    if (slot.draft == draft) files.insert(scale.file);
  }
  const std::string_view owner = draft ? "draft" : "target";
  if ((promised != nullptr) != !files.empty() || files.size() > 1) {
    return ViewError(Code::kMismatch, provenance_file,
                     fmt::format("names {} file of {} scales; the index places them in {}",
                                 promised != nullptr ? 1 : 0, owner, files.size()));
  }
  if (files.empty()) return {};
  const fs::path& file = *files.begin();
  KV8_ASSIGN_OR_RETURN(const MappedFile map, MappedFile::Open(file));
  Sha256 hash;
  hash.Update(map.bytes());
  if (const std::string actual = hash.FinishHex(); actual != promised->sha256) {
    return ViewError(
        Code::kMismatch, file,
        fmt::format("has SHA-256 {}; {} says {}", actual, kProvenanceFile, promised->sha256));
  }
  KV8_ASSIGN_OR_RETURN(const ScaleFile content, ParseScaleFile(map.bytes(), file.string()));
  return draft ? CheckDraftMetadata(content, file.string())
               : CheckTargetMetadata(content, file.string());
}

/// The view has its own index; its weights and configuration are those of the base.
Result<LineageMatch> CheckIdentity(const Checkpoint& checkpoint, const Provenance& provenance,
                                   const LineageOptions& options, const fs::path& file) {
  const std::string& promised = provenance.merged_index_sha256;
  if (!promised.empty() && promised != checkpoint.index_sha256()) {
    return ViewError(Code::kMismatch, file,
                     fmt::format("is for a view whose {} has SHA-256 {}; here it is {}", kIndexFile,
                                 promised, checkpoint.index_sha256()));
  }
  Lineage base = provenance.base;
  base.index_sha256.clear();
  KV8_ASSIGN_OR_RETURN(
      LineageMatch match,
      CheckLineage(base, checkpoint, options, "the view was made of", file.string(),
                   fmt::format("{}{}", kViewRemedy, kAcceptLineage)));
  const auto& accepted = provenance.accepted_lineage;
  match.accepted.insert(match.accepted.begin(), accepted.begin(), accepted.end());
  return match;
}

Result<void> ReadAccepted(const JsonFields& root, Provenance* out) {
  constexpr std::string_view kKey = "accepted_lineage";
  if (!root.Has(kKey)) return {};
  KV8_ASSIGN_OR_RETURN(const Json* names, root.Array(kKey));
  for (const Json& name : *names) {
    if (!name.is_string()) return root.Bad(kKey, "must hold strings");
    out->accepted_lineage.push_back(name.get<std::string>());
  }
  return {};
}

/// Refuses a pack's or tool's scale shard that stands in a checkpoint without provenance.
Result<void> CheckNoMarkedShard(const FoundScales& found, const fs::path& provenance_file) {
  std::set<fs::path> files;
  for (const auto& [slot, scale] : found) files.insert(scale.file);
  for (const fs::path& path : files) {
    KV8_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
    const auto& metadata = file.content().metadata;
    const bool marked = metadata.contains(kContractKey) || metadata.contains(kNegativeControlKey) ||
                        metadata.contains(kDraftSourceKey);
    if (!marked) continue;
    return ViewError(Code::kNotFound, provenance_file,
                     fmt::format("is missing: nothing tells which checkpoint the scales in {} "
                                 "belong to",
                                 path.string()));
  }
  return {};
}

Json NullIfEmpty(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

Result<Provenance> ParseProvenance(const Json& json, std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(json, where, ""));
  KV8_ASSIGN_OR_RETURN(const std::uint64_t version, root.Count("schema_version"));
  if (version != kProvenanceSchema) {
    return root.Bad("schema_version",
                    fmt::format("is {}; kv8 reads {}", version, kProvenanceSchema));
  }
  Provenance out;
  KV8_RETURN_IF_ERROR(CheckCalibrated(root));
  KV8_ASSIGN_OR_RETURN(out.base_checkpoint, root.String("base_checkpoint"));
  KV8_ASSIGN_OR_RETURN(out.base.index_sha256, root.Sha256("base_index_sha256"));
  if (root.Has("artifact_id")) {
    KV8_ASSIGN_OR_RETURN(out.artifact_id, root.String("artifact_id"));
  }
  KV8_ASSIGN_OR_RETURN(out.manifest_sha256, OptionalSha256(root, "scale_pack_manifest_sha256"));
  KV8_ASSIGN_OR_RETURN(out.rule, ReadScaleRule(root));
  KV8_RETURN_IF_ERROR(ReadLineage(root, &out.base));
  KV8_RETURN_IF_ERROR(ReadAccepted(root, &out));
  KV8_RETURN_IF_ERROR(ReadShards(root, &out));
  return out;
}

Json ProvenanceToJson(const Provenance& provenance) {
  const auto& draft = provenance.draft;
  Json json = {{"schema_version", kProvenanceSchema},
               {"artifact_id", provenance.artifact_id},
               {"base_checkpoint", provenance.base_checkpoint},
               {"base_index_sha256", provenance.base.index_sha256},
               {"scale_pack_manifest_sha256", provenance.manifest_sha256},
               {"merged_index_sha256", provenance.merged_index_sha256},
               {"accepted_lineage", provenance.accepted_lineage},
               {"target_scale_file_sha256", provenance.target.sha256},
               {"target_scale_source", "published"},
               {"target_scales", Json()},
               {"target_tensor_count", provenance.target.tensor_names.size()},
               {"target_tensor_names", provenance.target.tensor_names},
               {"mtp_scale_file_sha256", draft ? Json(draft->sha256) : Json()},
               {"mtp_scale_source", draft ? Json(kDraftSourceCalibrated) : Json()},
               {"mtp_report", NullIfEmpty(provenance.draft_report)},
               {"mtp_report_sha256", NullIfEmpty(provenance.draft_report_sha256)},
               {"mtp_tensor_count", draft ? draft->tensor_names.size() : 0},
               {"mtp_tensor_names", draft ? Json(draft->tensor_names) : Json::array()}};
  WriteScaleRule(provenance.rule, &json);
  WriteLineage(provenance.base, &json);
  return json;
}

Result<std::optional<CheckedProvenance>> CheckProvenance(const Checkpoint& checkpoint,
                                                         const FoundScales& found,
                                                         const LineageOptions& options) {
  const fs::path file = checkpoint.dir() / kProvenanceFile;
  if (!PathExists(file)) {
    KV8_RETURN_IF_ERROR(CheckNoMarkedShard(found, file));
    return std::optional<CheckedProvenance>();
  }
  KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(file, kMaxProvenanceBytes));
  KV8_ASSIGN_OR_RETURN(const Provenance provenance, ParseProvenance(json, file.string()));
  KV8_RETURN_IF_ERROR(CheckShard(found, /*draft=*/false, &provenance.target, file));
  const ProvenanceShard* draft = provenance.draft ? &*provenance.draft : nullptr;
  KV8_RETURN_IF_ERROR(CheckShard(found, /*draft=*/true, draft, file));
  // Last, because it may have to read all weights.
  KV8_ASSIGN_OR_RETURN(LineageMatch match, CheckIdentity(checkpoint, provenance, options, file));
  return std::optional(CheckedProvenance{provenance.artifact_id, std::move(match)});
}

}  // namespace kv8
