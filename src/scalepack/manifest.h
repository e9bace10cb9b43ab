// kvscales-manifest.json: what a pack holds and which checkpoint it belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "scalepack/lineage.h"
#include "scalepack/scale_names.h"
#include "scalepack/scale_rule.h"

namespace kv8 {

/// One shard of scales, as the manifest promises it.
struct ManifestScaleFile {
  std::string filename;
  std::string sha256;
  std::vector<std::string> tensor_names;
};

/// What the manifest tells about one scale.
struct ManifestTensor {
  ScaleSlot slot;
  float scale = 0;
  std::optional<float> max_abs;   // absent in some published manifests
  Json summary = Json::object();  // further keys, written as they are and not read back
};

struct ScaleManifest {
  std::string artifact_id;
  std::string repo_id;  // the base checkpoint's name; for people
  Lineage base;
  ScaleRule rule;  // how the scales follow from what was measured
  /// Of the file that the scales were taken from; empty for scales that kv8 measured.
  std::string imported_sha256;
  ManifestScaleFile target;
  std::optional<ManifestScaleFile> draft;  // kv8's own key; absent in packs by other tools
  std::vector<ManifestTensor> tensors;     // target, then draft; empty when the pack has no list

  /// What 448 x scale stands for, in the text of contracts.
  std::string_view limit_name() const {
    return imported_sha256.empty() ? ClipLimitName(rule) : "clip_limit";
  }
};

/// Errors: kCorrupt, naming file and key: wrong type, missing key, unknown schema version, a file
/// name that leaves the pack or that something else owns, a tensor listed twice, a scale that is
/// not the one its max_abs gives, or larger where the rule may give less.
Result<ScaleManifest> ParseManifest(const Json& json, std::string_view where);

Json ManifestToJson(const ScaleManifest& manifest);

}  // namespace kv8
