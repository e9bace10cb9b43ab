// From single scales, wherever they were found, to a complete set.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/kv_scales.h"
#include "scalepack/scale_names.h"

namespace kv8 {

struct FoundScale {
  std::string tensor;
  std::filesystem::path file;
  float value = 0;
};

using FoundScales = std::map<ScaleSlot, FoundScale>;

/// One scale pair per QSA layer of the target, and the draft's pair when either half is there.
/// Errors: kNotFound, listing every missing tensor by the name it should have, the directory that
/// was searched, and the remedy.
Result<KvScales> AssembleScales(const Checkpoint& checkpoint, const FoundScales& found,
                                const std::filesystem::path& searched);

/// The scales among the checkpoint's own tensors, whatever their spelling; tensors of layers that
/// are not QSA are no scales of ours. Errors: those of ReadScale; kCorrupt when two tensors fill
/// one slot, naming both.
Result<FoundScales> FindOwnScales(const Checkpoint& checkpoint);

/// Errors: kInvalidArgument when the checkpoint has scales of its own, so that a pack beside them
/// would be a second opinion.
Result<void> RefuseOwnScales(const Checkpoint& checkpoint);

}  // namespace kv8
