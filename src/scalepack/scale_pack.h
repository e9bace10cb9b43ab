// A scale pack on disk, read with every check that needs no checkpoint, and its binding to one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/kv_scales.h"
#include "scalepack/manifest.h"
#include "scalepack/scale_file.h"

namespace kv8 {

/// A shard of scales and its file image, byte for byte.
struct ScaleShard {
  std::string bytes;
  ScaleFile content;
};

/// A pack whose files agree with each other.
struct ScalePack {
  std::filesystem::path dir;
  ScaleManifest manifest;
  std::string manifest_sha256;
  ScaleShard target;
  std::optional<ScaleShard> draft;
};

/// Order of checks: SHA256SUMS complete and matching, manifest, hash of each scale file, its
/// tensors and markers, names and count, the manifest's list against the values.
/// Errors: kNotFound, kMismatch, kCorrupt; each names file and tensor or key.
Result<ScalePack> ReadScalePack(const std::filesystem::path& dir);

/// The pack's scales for `checkpoint`. Errors: kMismatch when the pack was made for another
/// checkpoint (see CheckLineage), has scales for other layers, or such as no text can give (see
/// CheckScaleBounds); kInvalidArgument when the checkpoint is a materialized view, which has its
/// own scales.
Result<KvScales> BindScalePack(const ScalePack& pack, const Checkpoint& checkpoint,
                               const LineageOptions& lineage = {});

}  // namespace kv8
