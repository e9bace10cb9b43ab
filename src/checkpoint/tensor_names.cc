#include "checkpoint/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace kv8 {
namespace {

constexpr std::string_view kDraftHead = "mtp.shared_head.head.";

/// Leaves that only quantised checkpoints have: FP8 block, NVFP4, compressed-tensors, AWQ, GPTQ.
constexpr std::array<std::string_view, 13> kQuantisedLeaves = {
    "weight_scale",     "weight_scale_2",
    "weight_scale_inv", "weight_global_scale",
    "weight_packed",    "weight_zero_point",
    "weight_shape",     "input_scale",
    "qweight",          "qzeros",
    "scales",           "g_idx",
    "weight_g_idx"};

constexpr std::array<std::string_view, 3> kIntegerBuffers = {
    "layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes"};

std::string_view Leaf(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == name.npos ? name : name.substr(dot + 1);
}

/// `name` with the leading `from` replaced by `to`; nullopt when it does not start so.
std::optional<std::string> Replace(std::string_view name, std::string_view from,
                                   std::string_view to) {
  if (!name.starts_with(from)) return std::nullopt;
  return fmt::format("{}{}", to, name.substr(from.size()));
}

std::string FoldPrefix(std::string_view name) {
  if (auto folded = Replace(name, "model.language_model.", "model.")) return *folded;
  if (auto folded = Replace(name, "model.mtp.", "mtp.")) return *folded;
  return std::string(name);
}

bool Contains(const auto& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool IsLayerId(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::string> CanonicalName(std::string_view name) {
  const std::string_view leaf = Leaf(name);
  if (leaf.starts_with("hashstats_") || leaf.starts_with("token_lookup")) return std::nullopt;
  if (name.starts_with("model.visual.") || name.starts_with("visual.")) return std::nullopt;
  const std::string folded = FoldPrefix(name);
  if (auto head = Replace(folded, kDraftHead, "lm_head.")) return head;
  return folded;
}

bool IsDraftHeadCopy(std::string_view name) {
  return FoldPrefix(name).starts_with(kDraftHead);
}

std::string WhyUnsupported(std::string_view canonical_name, DType dtype) {
  const std::string_view leaf = Leaf(canonical_name);
  if (Contains(kQuantisedLeaves, leaf)) {
    return "belongs to a quantised checkpoint; this build runs BF16, F16 and F32 weights";
  }
  if (IsPlainFloat(dtype)) return {};
  if (dtype == DType::kI64 && Contains(kIntegerBuffers, leaf)) return {};
  return fmt::format("has type {}; this build runs BF16, F16 and F32 weights", Name(dtype));
}

std::optional<LayerVote> LayerVoteOf(std::string_view name) {
  constexpr std::string_view kMarker = ".layers.";
  constexpr std::string_view kSuffix = ".self_attn.k_proj.weight";
  const auto marker = name.find(kMarker);
  if (marker == name.npos || !name.ends_with(kSuffix)) return std::nullopt;
  if (FoldPrefix(name).starts_with("mtp.")) return std::nullopt;
  const auto id_begin = marker + kMarker.size();
  if (id_begin + kSuffix.size() >= name.size()) return std::nullopt;
  const auto id = name.substr(id_begin, name.size() - kSuffix.size() - id_begin);
  if (!IsLayerId(id)) return std::nullopt;
  return LayerVote{std::string(name.substr(0, id_begin)), std::string(id)};
}

}  // namespace kv8
