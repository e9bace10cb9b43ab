#include "scalepack/sidecar.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/sha256.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kMaxSidecarBytes = 16 << 20;
constexpr std::string_view kPerLayerKey = "per_layer";

/// "7" -> 7; nullopt for anything that is not a number as one writes it.
std::optional<int> LayerId(std::string_view key) {
  int id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool plain = error == std::errc() && end == key.data() + key.size();
  if (!plain || id < 0 || fmt::to_string(id) != key) return std::nullopt;
  return id;
}

Result<float> ReadValue(const JsonFields& entry, std::string_view key) {
  if (entry.Has(key) && (entry.json().at(key).is_array() || entry.json().at(key).is_object())) {
    return entry.Bad(key, "must be one number: scales per head are no scales of this contract");
  }
  KV8_ASSIGN_OR_RETURN(const double value, entry.Number(key));
  const auto scale = static_cast<float>(value);
  if (!(value > 0) || !std::isfinite(scale) || scale == 0) {
    return entry.Bad(key, fmt::format("is {}; must be a positive FP32 number", value));
  }
  if (scale == 1) return entry.Bad(key, "is 1, the mark of a cache that was not calibrated");
  return scale;
}

/// The entry of a layer; `keys` is how many it must have.
Result<void> ReadLayer(const JsonFields& entry, int layer, int target_layers, std::size_t keys,
                       SidecarScales* scales) {
  if (layer > target_layers) {
    return entry.Bad("", fmt::format("is layer {}; the model has 0 to {} and the draft layer {}",
                                     layer, target_layers - 1, target_layers));
  }
  const bool draft = layer == target_layers;
  for (const KvSide side : {KvSide::kKey, KvSide::kValue}) {
    KV8_ASSIGN_OR_RETURN(const float scale,
                         ReadValue(entry, side == KvSide::kKey ? "k_scale" : "v_scale"));
    if (!scales->emplace(ScaleSlot{draft, draft ? 0 : layer, side}, scale).second) {
      return entry.Bad("layer", fmt::format("is {}, which stands there twice", layer));
    }
  }
  if (entry.json().size() == keys) return {};
  for (const auto& [key, value] : entry.json().items()) {
    if (key == "k_scale" || key == "v_scale" || (keys == 3 && key == "layer")) continue;
    return entry.Bad(key, "is unknown: a layer has k_scale and v_scale");
  }
  return {};
}

Result<void> ReadLayers(const JsonFields& layers, int target_layers, SidecarScales* scales) {
  for (const auto& [key, value] : layers.json().items()) {
    const auto layer = LayerId(key);
    if (!layer) return layers.Bad(key, "is no layer id, such as \"3\"");
    KV8_ASSIGN_OR_RETURN(const JsonFields entry, layers.Object(key));
    KV8_RETURN_IF_ERROR(ReadLayer(entry, *layer, target_layers, 2, scales));
  }
  return {};
}

Result<void> ReadList(const JsonFields& root, int target_layers, SidecarScales* scales) {
  KV8_ASSIGN_OR_RETURN(const Json* list, root.Array(kPerLayerKey));
  for (std::size_t i = 0; i < list->size(); ++i) {
    KV8_ASSIGN_OR_RETURN(
        const JsonFields entry,
        JsonFields::Of((*list)[i], root.where(), fmt::format("{}[{}]", kPerLayerKey, i)));
    KV8_ASSIGN_OR_RETURN(const std::uint64_t layer,
                         entry.Count("layer", std::numeric_limits<int>::max()));
    KV8_RETURN_IF_ERROR(ReadLayer(entry, static_cast<int>(layer), target_layers, 3, scales));
  }
  return {};
}

/// Beside "per_layer" a file may say more about itself, but nothing about layers.
Result<void> ReadPerLayer(const JsonFields& root, int target_layers, SidecarScales* scales) {
  for (const auto& [key, value] : root.json().items()) {
    if (LayerId(key)) return root.Bad(key, "is a layer beside \"per_layer\"");
  }
  if (root.json().at(std::string(kPerLayerKey)).is_array()) {
    return ReadList(root, target_layers, scales);
  }
  KV8_ASSIGN_OR_RETURN(const JsonFields layers, root.Object(kPerLayerKey));
  return ReadLayers(layers, target_layers, scales);
}

}  // namespace

Result<SidecarScales> ParseSidecar(const Json& json, int target_layers, std::string_view where) {
  KV8_ASSIGN_OR_RETURN(const JsonFields root, JsonFields::Of(json, where, ""));
  SidecarScales scales;
  KV8_RETURN_IF_ERROR(root.Has(kPerLayerKey) ? ReadPerLayer(root, target_layers, &scales)
                                             : ReadLayers(root, target_layers, &scales));
  return scales;
}

Json SidecarToJson(const KvScales& scales, const Checkpoint& checkpoint, SidecarForm form) {
  Json layers = Json::object();
  const auto add = [&layers](int layer, const KvScale& scale) {
    layers[fmt::to_string(layer)] = {{"k_scale", scale.k}, {"v_scale", scale.v}};
  };
  std::size_t next = 0;
  for (const int layer : checkpoint.config().KvLayerNumbers()) add(layer, scales.target[next++]);
  if (scales.draft) add(checkpoint.config().layer_count(), *scales.draft);
  return form == SidecarForm::kLayers ? layers : Json{{std::string(kPerLayerKey), layers}};
}

Result<SidecarFile> ReadSidecar(const std::filesystem::path& path, int target_layers) {
  KV8_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxSidecarBytes));
  KV8_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path.string()));
  SidecarFile file;
  KV8_ASSIGN_OR_RETURN(file.scales, ParseSidecar(json, target_layers, path.string()));
  file.sha256 = Sha256Hex(text);
  return file;
}

}  // namespace kv8
