#include "scalepack/found_scales.h"

#include <fmt/format.h>

#include "scalepack/scale_file.h"

namespace kv8 {
namespace {

Result<void> CheckComplete(const Checkpoint& checkpoint, const std::vector<ScaleSlot>& slots,
                           const FoundScales& found, const std::filesystem::path& searched) {
  std::vector<std::string> missing;
  for (const ScaleSlot& slot : slots) {
    if (found.contains(slot)) continue;
    missing.push_back(ScaleTensorName(checkpoint.layer_prefix(), slot));
  }
  if (missing.empty()) return {};
  return Error{Code::kNotFound,
               fmt::format("{} of {} {} K/V scales are missing: {}", missing.size(), slots.size(),
                           slots.front().draft ? "draft" : "target", fmt::join(missing, ", ")),
               searched.string(), std::string(kCalibrateRemedy)};
}

/// True when the slot is one that this model has.
bool BelongsTo(const ModelSpec& config, const ScaleSlot& slot) {
  if (slot.draft) return config.draft.has_value();
  const auto layers = config.layer_count();
  return slot.layer < layers &&
         config.layers[static_cast<std::size_t>(slot.layer)].kind == LayerKind::kQsa;
}

}  // namespace

Result<KvScales> AssembleScales(const Checkpoint& checkpoint, const FoundScales& found,
                                const std::filesystem::path& searched) {
  KV8_RETURN_IF_ERROR(CheckComplete(checkpoint, TargetSlots(checkpoint), found, searched));
  const auto value = [&found](bool draft, int layer, KvSide side) {
    return found.at({draft, layer, side}).value;
  };
  KvScales scales;
  for (const int layer : checkpoint.config().KvLayerNumbers()) {
    scales.target.push_back(
        {value(false, layer, KvSide::kKey), value(false, layer, KvSide::kValue)});
  }
  const bool any_draft =
      found.contains({true, 0, KvSide::kKey}) || found.contains({true, 0, KvSide::kValue});
  if (!any_draft) return scales;
  KV8_RETURN_IF_ERROR(CheckComplete(checkpoint, DraftSlots(), found, searched));
  scales.draft = KvScale{value(true, 0, KvSide::kKey), value(true, 0, KvSide::kValue)};
  return scales;
}

Result<FoundScales> FindOwnScales(const Checkpoint& checkpoint) {
  FoundScales found;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto slot = ParseScaleTensorName(name);
    if (!slot || !BelongsTo(checkpoint.config(), *slot)) continue;
    const std::filesystem::path file = checkpoint.FileOf(name);
    KV8_ASSIGN_OR_RETURN(const float value, ReadScale(tensor, name, file.string()));
    const auto [it, inserted] = found.emplace(*slot, FoundScale{name, file, value});
    if (!inserted) {
      return Error{Code::kCorrupt,
                   fmt::format("{} and {} are the same scale", it->second.tensor, name),
                   file.string(), "keep one of the two in the index"};
    }
  }
  return found;
}

Result<void> RefuseOwnScales(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto slot = ParseScaleTensorName(name);
    if (slot && BelongsTo(checkpoint.config(), *slot)) names.push_back(name);
  }
  if (names.empty()) return {};
  return Error{
      Code::kInvalidArgument,
      fmt::format("the checkpoint already has K/V scales of its own: {}", fmt::join(names, ", ")),
      checkpoint.dir().string(), "name the base checkpoint, or leave the scale pack out"};
}

}  // namespace kv8
