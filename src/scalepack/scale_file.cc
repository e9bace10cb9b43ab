#include "scalepack/scale_file.h"

#include <fmt/format.h>

#include <cmath>

#include "checkpoint/read_floats.h"
#include "checkpoint/safetensors.h"
#include "scalepack/scale_names.h"

namespace kv8 {
namespace {

Error BadScale(std::string_view name, std::string_view file, std::string_view problem) {
  return Error{Code::kCorrupt, fmt::format("scale {} {}", name, problem), std::string(file),
               std::string(kCalibrateRemedy)};
}

Result<void> CheckMarker(const ScaleFile& scales, std::string_view key, std::string_view wanted,
                         std::string_view file) {
  const auto it = scales.metadata.find(key);
  if (it != scales.metadata.end() && it->second == wanted) return {};
  const std::string actual =
      it == scales.metadata.end() ? "missing" : fmt::format("\"{}\"", it->second);
  return Error{Code::kCorrupt,
               fmt::format("metadata \"{}\" is {}; only \"{}\" marks calibrated scales", key,
                           actual, wanted),
               std::string(file), std::string(kCalibrateRemedy)};
}

}  // namespace

std::map<std::string, std::string, std::less<>> TargetMetadata(std::string_view limit_name) {
  return {{"format", "pt"},
          {std::string(kContractKey), fmt::format("e4m3fn(x/scale); scale={}/448", limit_name)},
          {std::string(kNegativeControlKey), "false"}};
}

std::map<std::string, std::string, std::less<>> DraftMetadata() {
  return {{std::string(kDraftSourceKey), std::string(kDraftSourceCalibrated)}};
}

Result<float> ReadScale(const TensorView& tensor, std::string_view name, std::string_view file) {
  const bool scalar = tensor.shape.empty() || (tensor.shape.size() == 1 && tensor.shape[0] == 1);
  // FP16 is no type for scales: small ones lose their digits in it.
  if ((tensor.dtype != DType::kF32 && tensor.dtype != DType::kBF16) || !scalar) {
    return BadScale(name, file,
                    fmt::format("is {} {}; must be F32 or BF16, [] or [1]", Name(tensor.dtype),
                                ShapeText(tensor.shape)));
  }
  const float value = ReadFloats(tensor).front();
  if (!std::isfinite(value) || value <= 0) {
    return BadScale(name, file, fmt::format("is {}; must be finite and positive", value));
  }
  if (value == 1.0f) return BadScale(name, file, "is 1, the mark of an uncalibrated cache");
  return value;
}

Result<ScaleFile> ParseScaleFile(std::span<const std::byte> bytes, std::string_view file) {
  KV8_ASSIGN_OR_RETURN(const SafetensorsContent content, ParseSafetensors(bytes, file));
  ScaleFile scales{.scales = {}, .metadata = content.metadata};
  for (const auto& [name, tensor] : content.tensors) {
    KV8_ASSIGN_OR_RETURN(scales.scales[name], ReadScale(tensor, name, file));
  }
  return scales;
}

Result<void> CheckTargetMetadata(const ScaleFile& scales, std::string_view file) {
  return CheckMarker(scales, kNegativeControlKey, "false", file);
}

Result<void> CheckDraftMetadata(const ScaleFile& scales, std::string_view file) {
  return CheckMarker(scales, kDraftSourceKey, kDraftSourceCalibrated, file);
}

std::string SerializeScaleFile(const ScaleFile& file) {
  SafetensorsContent content{.tensors = {}, .metadata = file.metadata};
  for (const auto& [name, value] : file.scales) {
    content.tensors[name] = {reinterpret_cast<const std::byte*>(&value), DType::kF32, {}};
  }
  return SerializeSafetensors(content);
}

}  // namespace kv8
