// The safetensors shard that carries scales: FP32 scalars and a little metadata.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kv8/error.h"
#include "scalepack/scale_rule.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Metadata keys and values; the names are those of the published packs.
inline constexpr std::string_view kContractKey = "qsa_kv_scale_contract";
inline constexpr std::string_view kNegativeControlKey = "negative_control";
inline constexpr std::string_view kDraftSourceKey = "source";
inline constexpr std::string_view kDraftSourceCalibrated = "calibrated";

struct ScaleFile {
  std::map<std::string, float, std::less<>> scales;  // tensor name -> value
  std::map<std::string, std::string, std::less<>> metadata;
};

/// A production target shard's metadata: format, contract, negative_control = false.
std::map<std::string, std::string, std::less<>> TargetMetadata(
    std::string_view limit_name = ClipLimitName({}));
/// A calibrated draft shard's metadata.
std::map<std::string, std::string, std::less<>> DraftMetadata();

/// One stored scale. Errors: kCorrupt, naming tensor and file, unless it is F32, of shape [] or
/// [1], finite, positive and not exactly 1.
Result<float> ReadScale(const TensorView& tensor, std::string_view name, std::string_view file);

/// Parses a file image in which every tensor is a scale. Errors: those of ParseSafetensors and
/// ReadScale.
Result<ScaleFile> ParseScaleFile(std::span<const std::byte> bytes, std::string_view file);

/// Errors: kCorrupt unless the metadata has `negative_control` = "false": without the marker, or
/// with "true", the file may hold scales made to show what wrong ones do.
Result<void> CheckTargetMetadata(const ScaleFile& scales, std::string_view file);
/// Errors: kCorrupt unless the metadata has `source` = "calibrated".
Result<void> CheckDraftMetadata(const ScaleFile& scales, std::string_view file);

/// The file image. Names are sorted, scales have shape [].
std::string SerializeScaleFile(const ScaleFile& file);

}  // namespace kv8
