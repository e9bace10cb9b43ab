// Bytes of a model's weights by module and format.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/model_weights.h"
#include "tensor/visit_weights.h"

namespace kv8 {

/// Matrices of one module in one format, and the FP32 vectors beside them.
struct ModuleBytes {
  WeightModule module{};
  bool draft = false;
  bool vectors = false;  // of the module: FP32 whatever `format` says
  WeightFormat format = WeightFormat::kFp32;
  std::int64_t bytes = 0;
  std::int64_t values = 0;  // of matrices: multiply-adds of one row
};

/// The name for people and scripts, e.g. "shared_expert".
std::string_view Name(WeightModule module);

/// One row for each module and format, the draft's last, and only with `with_draft`. `weights` stay
/// as they are.
std::vector<ModuleBytes> BytesByModule(ModelWeights& weights, bool with_draft);

}  // namespace kv8
