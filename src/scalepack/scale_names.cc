#include "scalepack/scale_names.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace kv8 {
namespace {

constexpr std::string_view kCanonicalPrefix = "model.layers.";
constexpr std::string_view kDraftPrefix = "mtp.layers.";

struct Spelling {
  std::string_view suffix;
  KvSide side;
};

constexpr std::array<Spelling, 12> kSpellings = {{{"k_scale", KvSide::kKey},
                                                  {"_k_scale", KvSide::kKey},
                                                  {"attn.k_scale", KvSide::kKey},
                                                  {"attn._k_scale", KvSide::kKey},
                                                  {"k_proj.k_scale", KvSide::kKey},
                                                  {"k_proj.output_scale", KvSide::kKey},
                                                  {"v_scale", KvSide::kValue},
                                                  {"_v_scale", KvSide::kValue},
                                                  {"attn.v_scale", KvSide::kValue},
                                                  {"attn._v_scale", KvSide::kValue},
                                                  {"v_proj.v_scale", KvSide::kValue},
                                                  {"v_proj.output_scale", KvSide::kValue}}};

bool ConsumePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

/// Reads "<digits>." without leading zeros.
std::optional<int> ConsumeLayerId(std::string_view* text) {
  int layer = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), layer);
  const auto digits = static_cast<std::size_t>(end - text->data());
  const bool canonical = layer >= 0 && (text->front() != '0' || digits == 1);
  if (status != std::errc() || !canonical || text->substr(digits, 1) != ".") return std::nullopt;
  text->remove_prefix(digits + 1);
  return layer;
}

}  // namespace

std::string_view Name(KvSide side) {
  return side == KvSide::kKey ? "k" : "v";
}

std::string ScaleTensorName(std::string_view prefix, const ScaleSlot& slot) {
  return fmt::format("{}{}.self_attn.{}_scale", slot.draft ? kDraftPrefix : prefix, slot.layer,
                     Name(slot.side));
}

std::string ReportTensorName(int target_layers, const ScaleSlot& slot) {
  return fmt::format("{}{}.self_attn.{}_scale", kCanonicalPrefix,
                     slot.draft ? target_layers : slot.layer, Name(slot.side));
}

std::optional<ScaleSlot> ParseScaleTensorName(std::string_view canonical_name) {
  ScaleSlot slot;
  slot.draft = ConsumePrefix(&canonical_name, kDraftPrefix);
  if (!slot.draft && !ConsumePrefix(&canonical_name, kCanonicalPrefix)) return std::nullopt;
  if (canonical_name.empty()) return std::nullopt;
  const auto layer = ConsumeLayerId(&canonical_name);
  if (!layer || (slot.draft && *layer != 0)) return std::nullopt;
  slot.layer = *layer;
  ConsumePrefix(&canonical_name, "self_attn.");
  for (const Spelling& spelling : kSpellings) {
    if (canonical_name != spelling.suffix) continue;
    slot.side = spelling.side;
    return slot;
  }
  return std::nullopt;
}

std::vector<ScaleSlot> TargetSlots(const Checkpoint& checkpoint) {
  std::vector<ScaleSlot> slots;
  for (const int layer : checkpoint.config().KvLayerNumbers()) {
    slots.push_back({false, layer, KvSide::kKey});
    slots.push_back({false, layer, KvSide::kValue});
  }
  return slots;
}

std::vector<ScaleSlot> DraftSlots() {
  return {{true, 0, KvSide::kKey}, {true, 0, KvSide::kValue}};
}

}  // namespace kv8
