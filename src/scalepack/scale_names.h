// The names that packs, views and checkpoints agree on: files, tensors, remedies.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/index.h"
#include "family/checkpoint.h"
#include "kv8/types.h"

namespace kv8 {

inline constexpr std::string_view kManifestFile = "kvscales-manifest.json";
inline constexpr std::string_view kProvenanceFile = "kvscales-provenance.json";
inline constexpr std::string_view kSumsFile = "SHA256SUMS";
inline constexpr std::string_view kReadmeFile = "README.md";
inline constexpr std::string_view kTargetScaleFile = "model-kvscales.safetensors";
/// Drafters load the first files that match this, so the draft's scales must match it and the
/// target's must not.
inline constexpr std::string_view kDraftFirstPrefix = "model-bf16-";
inline constexpr std::string_view kDraftScaleFile = "model-bf16-kvscales-mtp.safetensors";

/// What to do about scales that are absent or unusable.
inline constexpr std::string_view kCalibrateRemedy =
    "run `kv8 calibrate` and `kv8 pack` on this checkpoint and name the pack with --scale-pack";

/// "k" or "v".
std::string_view Name(KvSide side);

/// Which cache a scale belongs to. `layer` is the target's layer id, 0 for the draft's only layer.
struct ScaleSlot {
  bool draft = false;
  int layer = 0;
  KvSide side = KvSide::kKey;

  auto operator<=>(const ScaleSlot&) const =
      default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads it
};

/// "<prefix>7.self_attn.k_scale"; `prefix` ends in "layers.".
std::string ScaleTensorName(std::string_view prefix, const ScaleSlot& slot);

/// The slot's key in a calibration report, where the draft layer's id is `target_layers`.
std::string ReportTensorName(int target_layers, const ScaleSlot& slot);

/// The slot that a canonical checkpoint tensor name fills: `model.layers.N.` or `mtp.layers.0.`,
/// an optional `self_attn.`, and one of the spellings in use (`k_scale`, `_k_scale`,
/// `attn.k_scale`, `attn._k_scale`, `k_proj.k_scale`, `k_proj.output_scale` and V's mirror images).
std::optional<ScaleSlot> ParseScaleTensorName(std::string_view canonical_name);

/// Every slot of a checkpoint's target, in layer order, K before V.
std::vector<ScaleSlot> TargetSlots(const Checkpoint& checkpoint);
/// The draft's two slots.
std::vector<ScaleSlot> DraftSlots();

}  // namespace kv8
