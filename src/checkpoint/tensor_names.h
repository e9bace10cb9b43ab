// The names of tensors in files, and the one name kv8 uses for each.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace kv8 {

/// The name kv8 uses: "model.language_model.X" becomes "model.X", "model.mtp.X" becomes "mtp.X",
/// "mtp.shared_head.head.X" (the draft's copy of the head) becomes "lm_head.X".
/// nullopt for tensors that are no part of the text model: the vision tower, and leaves starting
/// with "hashstats_" or "token_lookup" (statistics that some exporters leave behind).
std::optional<std::string> CanonicalName(std::string_view name);

/// True for the draft's copy of the output head, which must equal the head.
bool IsDraftHeadCopy(std::string_view name);

/// Why a tensor of this (canonical) name and type cannot be used: it belongs to a quantised
/// checkpoint or has a type that nothing in the model has. Empty when it can.
std::string WhyUnsupported(std::string_view canonical_name, DType dtype);

/// The layer prefix that one of the target's ".self_attn.k_proj.weight" names votes for, e.g.
/// "model.language_model.layers.", and the layer id; nullopt for every other name.
struct LayerVote {
  std::string prefix;
  std::string layer;
};
std::optional<LayerVote> LayerVoteOf(std::string_view name);

}  // namespace kv8
