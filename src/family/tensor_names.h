// The names of tensors in files, and the one name kv8 uses for each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/tensor_files.h"

namespace kv8 {

/// The name kv8 uses: "model.language_model.X" becomes "model.X", "model.mtp.X" becomes "mtp.X",
/// "mtp.shared_head.head.X" (the draft's copy of the head) becomes "lm_head.X".
/// nullopt for tensors that are no part of the text model: the vision tower, and leaves starting
/// with "hashstats_" or "token_lookup" (statistics that some exporters leave behind).
std::optional<std::string> CanonicalName(std::string_view name);

/// The name that the released checkpoint writes: the inverse for its files.
std::string ReleasedName(std::string_view canonical_name);

/// How the files of the family name their tensors.
const TensorNaming& Naming();

/// The layer prefix that one of the target's ".self_attn.k_proj.weight" names votes for (or,
/// quantised, its codes), e.g. "model.language_model.layers.", and the layer id; nullopt for every
/// other name.
struct LayerVote {
  std::string prefix;
  std::string layer;
};
std::optional<LayerVote> LayerVoteOf(std::string_view name);

/// Tensors that bound the keys and values of a layer.
struct KvTensorNames {
  std::string k_norm;
  std::string v_proj;
  std::string input_norm;  // of what v_proj multiplies
};
/// `layer` is the canonical start of the layer's names, "model.layers.7" or "mtp.layers.0".
KvTensorNames KvTensorNamesOf(std::string_view layer);

/// True for the tensors that K and V are made of: k_proj, v_proj and k_norm with their scales.
bool MakesKv(std::string_view canonical_name);

}  // namespace kv8
