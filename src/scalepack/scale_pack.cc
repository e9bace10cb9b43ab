#include "scalepack/scale_pack.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/sha256.h"
#include "scalepack/found_scales.h"
#include "scalepack/scale_bounds.h"
#include "scalepack/sha256sums.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxManifestBytes = 16 << 20;
/// A scale takes about 110 bytes, header included.
constexpr std::uint64_t kMaxScaleFileBytes = 16 << 20;
constexpr std::string_view kPackRemedy =
    "download the pack again, or build it again with `kv8 pack`";

Error PackError(Code code, const fs::path& where, std::string what) {
  return Error{code, std::move(what), where.string(), std::string(kPackRemedy)};
}

std::string JoinNames(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The shard holds exactly the tensors that the manifest names.
Result<void> CheckNames(const ManifestScaleFile& promised, const ScaleFile& found,
                        const fs::path& file) {
  std::vector<std::string> missing;
  for (const std::string& name : promised.tensor_names) {
    if (!found.scales.contains(name)) missing.push_back(name);
  }
  if (!missing.empty()) {
    return PackError(Code::kMismatch, file,
                     fmt::format("lacks {}, which {} lists", JoinNames(missing), kManifestFile));
  }
  for (const auto& [name, value] : found.scales) {
    const auto& names = promised.tensor_names;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return PackError(Code::kMismatch, file,
                       fmt::format("holds {}, which {} does not list", name, kManifestFile));
    }
  }
  return {};
}

Result<ScaleShard> ReadShard(const fs::path& dir, const ManifestScaleFile& promised,
                             const Sha256Sums& sums) {
  const fs::path file = dir / promised.filename;
  if (!sums.contains(promised.filename)) {
    return PackError(Code::kMismatch, file, fmt::format("is not listed in {}", kSumsFile));
  }
  ScaleShard shard;
  KV8_ASSIGN_OR_RETURN(shard.bytes, ReadFile(file, kMaxScaleFileBytes));
  if (const std::string actual = Sha256Hex(shard.bytes); actual != promised.sha256) {
    return PackError(
        Code::kMismatch, file,
        fmt::format("has SHA-256 {}; {} says {}", actual, kManifestFile, promised.sha256));
  }
  const auto bytes = std::as_bytes(std::span(shard.bytes));
  KV8_ASSIGN_OR_RETURN(shard.content, ParseScaleFile(bytes, file.string()));
  KV8_RETURN_IF_ERROR(CheckNames(promised, shard.content, file));
  return shard;
}

Result<ScaleManifest> ReadManifest(const fs::path& dir, const Sha256Sums& sums,
                                   std::string* sha256) {
  const fs::path file = dir / kManifestFile;
  KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMaxManifestBytes));
  *sha256 = Sha256Hex(text);
  const auto listed = sums.find(kManifestFile);
  if (listed == sums.end() || listed->second != *sha256) {
    return PackError(Code::kMismatch, file,
                     fmt::format("is not listed in {} with its SHA-256 {}", kSumsFile, *sha256));
  }
  KV8_ASSIGN_OR_RETURN(const Json json, ParseJson(text, file.string()));
  return ParseManifest(json, file.string());
}

/// Takes the shard's scales into `found`; each must have the checkpoint's own name of a slot. What
/// is missing is reported later, with all others that are.
Result<void> TakeShard(const ScaleShard& shard, const fs::path& file, std::string_view prefix,
                       const std::vector<ScaleSlot>& slots, FoundScales* found) {
  std::map<std::string, ScaleSlot, std::less<>> known;
  for (const ScaleSlot& slot : slots) known[ScaleTensorName(prefix, slot)] = slot;
  for (const auto& [name, value] : shard.content.scales) {
    const auto it = known.find(name);
    if (it == known.end()) {
      return Error{Code::kMismatch,
                   fmt::format("scale {} belongs to no QSA layer of this checkpoint", name),
                   file.string(), std::string(kCalibrateRemedy)};
    }
    (*found)[it->second] = {name, file, value};
  }
  return {};
}

/// One entry of the manifest's list has the value that the scale file holds.
Result<void> CheckManifestTensor(const ManifestTensor& tensor, const FoundScales& found,
                                 const fs::path& file) {
  const std::string name =
      fmt::format("{} scale of {} {}", Name(tensor.slot.side),
                  tensor.slot.draft ? "draft layer" : "layer", tensor.slot.layer);
  const auto it = found.find(tensor.slot);
  if (it == found.end()) {
    return PackError(Code::kMismatch, file, fmt::format("lists the {}; there is none", name));
  }
  if (it->second.value == tensor.scale) return {};
  return PackError(Code::kMismatch, file,
                   fmt::format("says that the {} is {}; {} holds {} as {}", name, tensor.scale,
                               it->second.file.string(), it->second.value, it->second.tensor));
}

/// The manifest's list, where there is one, has one entry per scale and the same values.
Result<void> CheckManifestTensors(const ScalePack& pack, const FoundScales& found) {
  const fs::path file = pack.dir / kManifestFile;
  for (const bool draft : {false, true}) {
    std::ptrdiff_t listed = 0;
    for (const ManifestTensor& tensor : pack.manifest.tensors) {
      if (tensor.slot.draft != draft) continue;
      KV8_RETURN_IF_ERROR(CheckManifestTensor(tensor, found, file));
      ++listed;
    }
    const auto held = std::count_if(found.begin(), found.end(), [draft](const auto& entry) {
      return entry.first.draft == draft;
    });
    if (listed == 0 || listed == held) continue;
    return PackError(Code::kMismatch, file,
                     fmt::format("\"{}\" has {} entries for {} scales",
                                 draft ? "draft_tensors" : "tensors", listed, held));
  }
  return {};
}

}  // namespace

Result<ScalePack> ReadScalePack(const fs::path& dir) {
  KV8_ASSIGN_OR_RETURN(const Sha256Sums sums, CheckSha256Sums(dir));
  ScalePack pack;
  pack.dir = dir;
  KV8_ASSIGN_OR_RETURN(pack.manifest, ReadManifest(dir, sums, &pack.manifest_sha256));
  KV8_ASSIGN_OR_RETURN(pack.target, ReadShard(dir, pack.manifest.target, sums));
  KV8_RETURN_IF_ERROR(
      CheckTargetMetadata(pack.target.content, (dir / pack.manifest.target.filename).string()));
  if (!pack.manifest.draft) return pack;
  KV8_ASSIGN_OR_RETURN(pack.draft, ReadShard(dir, *pack.manifest.draft, sums));
  KV8_RETURN_IF_ERROR(
      CheckDraftMetadata(pack.draft->content, (dir / pack.manifest.draft->filename).string()));
  return pack;
}

Result<KvScales> BindScalePack(const ScalePack& pack, const Checkpoint& checkpoint,
                               const LineageOptions& lineage) {
  KV8_RETURN_IF_ERROR(RefuseOwnScales(checkpoint));
  KV8_ASSIGN_OR_RETURN(LineageMatch match,
                       CheckLineage(pack.manifest.base, checkpoint, lineage,
                                    "the pack was made for", (pack.dir / kManifestFile).string(),
                                    fmt::format("{}{}", kCalibrateRemedy, kAcceptLineage)));
  FoundScales found;
  const std::string& prefix = checkpoint.layer_prefix();
  KV8_RETURN_IF_ERROR(TakeShard(pack.target, pack.dir / pack.manifest.target.filename, prefix,
                                TargetSlots(checkpoint), &found));
  if (pack.draft) {
    if (!checkpoint.config().draft) {
      return Error{Code::kMismatch, "the pack has draft scales; the checkpoint has no draft head",
                   (pack.dir / kDraftScaleFile).string(), std::string(kCalibrateRemedy)};
    }
    KV8_RETURN_IF_ERROR(
        TakeShard(*pack.draft, pack.dir / kDraftScaleFile, prefix, DraftSlots(), &found));
  }
  KV8_ASSIGN_OR_RETURN(KvScales scales, AssembleScales(checkpoint, found, pack.dir));
  KV8_RETURN_IF_ERROR(CheckManifestTensors(pack, found));
  KV8_RETURN_IF_ERROR(CheckScaleBounds(checkpoint, found));
  scales.lineage = std::move(match);
  scales.pack_id = pack.manifest.artifact_id;
  return scales;
}

}  // namespace kv8
