#include "family/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/tensor_types.h"
#include "checkpoint/weight_parts.h"

namespace kv8 {
namespace {

constexpr std::string_view kDraftHead = "mtp.shared_head.head.";

/// The constants of the n-gram memory's hash.
constexpr std::array<std::string_view, 3> kIntegerLeaves = {
    "layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes"};

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

bool IsDraftHeadCopy(std::string_view name) {
  return FoldPrefix(name).starts_with(kDraftHead);
}

constexpr std::string_view kExperts = ".experts.";
constexpr std::string_view kTable = ".ngram_embedding.";

/// `name` up to and with `marker`; empty where it is not in it.
std::string_view Through(std::string_view name, std::string_view marker) {
  const auto at = name.find(marker);
  return at == name.npos ? std::string_view() : name.substr(0, at + marker.size());
}

/// The experts of a layer are fused or not as a whole, and pieces of a table share a scale.
std::string_view UnitOf(std::string_view name) {
  for (const std::string_view marker : {kExperts, kTable}) {
    if (const std::string_view unit = Through(name, marker); !unit.empty()) return unit;
  }
  return IsWeightPart(LeafOf(name)) ? StemOf(name) : name;
}

std::string_view TableOf(std::string_view stem) {
  const std::string_view table = Through(stem, kTable);
  return table.size() == stem.size() ? std::string_view() : table;
}

bool IsLayerId(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::string> CanonicalName(std::string_view name) {
  const std::string_view leaf = LeafOf(name);
  if (leaf.starts_with("hashstats_") || leaf.starts_with("token_lookup")) return std::nullopt;
  if (name.starts_with("model.visual.") || name.starts_with("visual.")) return std::nullopt;
  const std::string folded = FoldPrefix(name);
  if (auto head = Replace(folded, kDraftHead, "lm_head.")) return head;
  return folded;
}

std::string ReleasedName(std::string_view canonical_name) {
  if (auto name = Replace(canonical_name, "model.", "model.language_model.")) return *name;
  return std::string(canonical_name);
}

const TensorNaming& Naming() {
  static constexpr TensorNaming kNaming{.canonical = CanonicalName,
                                        .is_head_copy = IsDraftHeadCopy,
                                        .integer_leaves = kIntegerLeaves,
                                        .unit = UnitOf,
                                        .table_of = TableOf};
  return kNaming;
}

std::optional<LayerVote> LayerVoteOf(std::string_view name) {
  constexpr std::string_view kMarker = ".layers.";
  constexpr std::string_view kSuffix = ".self_attn.k_proj.";
  constexpr std::array<std::string_view, 3> kCodes = {"weight", "weight_packed", "qweight"};
  const auto marker = name.find(kMarker);
  if (std::ranges::count(kCodes, LeafOf(name)) == 0) return std::nullopt;
  name = StemOf(name);
  if (marker == name.npos || !name.ends_with(kSuffix)) return std::nullopt;
  if (FoldPrefix(name).starts_with("mtp.")) return std::nullopt;
  const auto id_begin = marker + kMarker.size();
  if (id_begin + kSuffix.size() >= name.size()) return std::nullopt;
  const auto id = name.substr(id_begin, name.size() - kSuffix.size() - id_begin);
  if (!IsLayerId(id)) return std::nullopt;
  return LayerVote{std::string(name.substr(0, id_begin)), std::string(id)};
}

KvTensorNames KvTensorNamesOf(std::string_view layer) {
  return {.k_norm = fmt::format("{}.self_attn.k_norm.weight", layer),
          .v_proj = fmt::format("{}.self_attn.v_proj.weight", layer),
          .input_norm = fmt::format("{}.attn_hyper_connection.hc_norm.weight", layer)};
}

bool MakesKv(std::string_view canonical_name) {
  constexpr std::string_view kSuffixes[] = {".self_attn.k_proj.", ".self_attn.v_proj.",
                                            ".self_attn.k_norm."};
  if (!IsWeightPart(LeafOf(canonical_name))) return false;
  return std::ranges::any_of(kSuffixes, [canonical_name](std::string_view suffix) {
    return StemOf(canonical_name).ends_with(suffix);
  });
}

}  // namespace kv8
