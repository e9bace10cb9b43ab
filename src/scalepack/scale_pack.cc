#include "scalepack/scale_pack.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/sha256.h"
#include "scalepack/found_scales.h"
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

/// The index identifies the base; the K/V weights tell fine-tunes with the same index apart.
Result<void> CheckIdentity(const ScalePack& pack, const Checkpoint& checkpoint) {
  const fs::path file = pack.dir / kManifestFile;
  const auto compare = [&](std::string_view what, const std::string& theirs,
                           const std::string& ours) -> Result<void> {
    if (theirs == ours) return {};
    return Error{Code::kMismatch,
                 fmt::format("the pack was made for a checkpoint ({}) whose {} has SHA-256 {}; in "
                             "{} it is {}",
                             pack.manifest.repo_id, what, theirs, checkpoint.dir().string(),
                             ours.empty() ? "absent" : ours),
                 file.string(), std::string(kCalibrateRemedy)};
  };
  KV8_RETURN_IF_ERROR(compare(kIndexFile, pack.manifest.index_sha256, checkpoint.index_sha256()));
  if (pack.manifest.kv_weights_sha256.empty()) return {};
  return compare("set of K/V weights", pack.manifest.kv_weights_sha256,
                 checkpoint.KvWeightsSha256());
}

/// Takes the shard's scales into `found` under the checkpoint's own names, all of them.
Result<void> TakeShard(const ScaleShard& shard, const fs::path& file, std::string_view prefix,
                       const std::vector<ScaleSlot>& slots, FoundScales* found) {
  std::size_t taken = 0;
  for (const ScaleSlot& slot : slots) {
    const std::string name = ScaleTensorName(prefix, slot);
    const auto it = shard.content.scales.find(name);
    if (it == shard.content.scales.end()) continue;  // reported with all others that are missing
    (*found)[slot] = {name, file, it->second};
    ++taken;
  }
  if (taken == shard.content.scales.size()) return {};
  for (const auto& [name, value] : shard.content.scales) {
    const bool known = std::any_of(slots.begin(), slots.end(), [&](const ScaleSlot& slot) {
      return ScaleTensorName(prefix, slot) == name;
    });
    if (known) continue;
    return Error{Code::kMismatch,
                 fmt::format("scale {} belongs to no QSA layer of this checkpoint", name),
                 file.string(), std::string(kCalibrateRemedy)};
  }
  return {};
}

/// The manifest's list, where there is one, has one entry per scale and the same values.
Result<void> CheckManifestTensors(const ScalePack& pack, const FoundScales& found) {
  const fs::path file = pack.dir / kManifestFile;
  if (pack.manifest.tensors.empty()) return {};
  for (const ManifestTensor& tensor : pack.manifest.tensors) {
    const auto it = found.find(tensor.slot);
    const std::string name =
        fmt::format("{} scale of {} {}", Name(tensor.slot.side),
                    tensor.slot.draft ? "draft layer" : "layer", tensor.slot.layer);
    if (it == found.end()) {
      return PackError(Code::kMismatch, file, fmt::format("lists the {}; there is none", name));
    }
    if (it->second.value != tensor.scale) {
      return PackError(Code::kMismatch, file,
                       fmt::format("says that the {} is {}; {} holds {} as {}", name, tensor.scale,
                                   it->second.file.string(), it->second.value, it->second.tensor));
    }
  }
  const auto expected = std::count_if(found.begin(), found.end(), [&](const auto& entry) {
    return !entry.first.draft ||
           std::any_of(pack.manifest.tensors.begin(), pack.manifest.tensors.end(),
                       [](const auto& t) { return t.slot.draft; });
  });
  if (static_cast<std::size_t>(expected) != pack.manifest.tensors.size()) {
    return PackError(Code::kMismatch, file,
                     fmt::format("\"tensors\" has {} entries for {} scales",
                                 pack.manifest.tensors.size(), expected));
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

Result<KvScales> BindScalePack(const ScalePack& pack, const Checkpoint& checkpoint) {
  KV8_RETURN_IF_ERROR(RefuseOwnScales(checkpoint));
  KV8_RETURN_IF_ERROR(CheckIdentity(pack, checkpoint));
  FoundScales found;
  const std::string& prefix = checkpoint.layer_prefix();
  KV8_RETURN_IF_ERROR(TakeShard(pack.target, pack.dir / pack.manifest.target.filename, prefix,
                                TargetSlots(checkpoint), &found));
  if (pack.draft) {
    if (!checkpoint.config().mtp) {
      return Error{Code::kMismatch, "the pack has draft scales; the checkpoint has no draft head",
                   (pack.dir / kDraftScaleFile).string(), std::string(kCalibrateRemedy)};
    }
    KV8_RETURN_IF_ERROR(
        TakeShard(*pack.draft, pack.dir / kDraftScaleFile, prefix, DraftSlots(), &found));
  }
  KV8_ASSIGN_OR_RETURN(KvScales scales, AssembleScales(checkpoint, found, pack.dir));
  KV8_RETURN_IF_ERROR(CheckManifestTensors(pack, found));
  scales.pack_id = pack.manifest.artifact_id;
  return scales;
}

}  // namespace kv8
