// JSON sidecars: the scales of a model in the small files that other engines and tools use.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/kv_scales.h"
#include "scalepack/scale_names.h"

namespace kv8 {

/// What stands around the layers.
enum class SidecarForm {
  kLayers,    // {"3": {"k_scale": 0.02, "v_scale": 0.01}, ...}
  kPerLayer,  // {"per_layer": {"3": {...}, ...}}
};

using SidecarScales = std::map<ScaleSlot, float>;

/// Reads both forms, and {"per_layer": [{"layer": 3, ...}, ...]}. The draft layer's id is
/// `target_layers`. Errors: kCorrupt, naming file and key, for anything that is not a layer with
/// exactly the two scales, for a layer that stands there twice, and for a scale that ReadScale
/// would refuse: not a number, not finite, not positive, or 1.
Result<SidecarScales> ParseSidecar(const Json& json, int target_layers, std::string_view where);

/// The sidecar of `checkpoint`'s scales, the draft's included when there are some.
Json SidecarToJson(const KvScales& scales, const Checkpoint& checkpoint, SidecarForm form);

/// A sidecar and the SHA-256 of its bytes.
struct SidecarFile {
  SidecarScales scales;
  std::string sha256;
};
/// Errors: those of ReadFile, ParseJson and ParseSidecar.
Result<SidecarFile> ReadSidecar(const std::filesystem::path& path, int target_layers);

}  // namespace kv8
