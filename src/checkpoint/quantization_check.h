// What a configuration says of its tensors, compared with what they are.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/quantization_config.h"
#include "checkpoint/stored_weights.h"
#include "checkpoint/tensor_files.h"
#include "kv8/error.h"

namespace kv8 {

/// Compares `weights`, of one part of `files`, with each of `configs`. The result lists what is
/// known to disagree, one line each: tables that are quantised though nothing says so, and matrices
/// that are said to be quantised and are plain. Errors: kMismatch, naming key and tensor, for every
/// other disagreement, and for a part that is said to be quantised where nothing is.
Result<std::vector<std::string>> CompareQuantization(
    const TensorFiles& files, std::size_t part, const StoredWeights& weights,
    const std::vector<QuantizationConfig>& configs);

}  // namespace kv8
