// Weights from the tensors of a checkpoint.
#pragma once

#include "family/tensor_source.h"
#include "kv8/error.h"
#include "tensor/model_weights.h"

namespace kv8 {

/// Binds every tensor of the schema: matrices stay where the source has them, vectors (norms,
/// gates, short convolutions) become FP32 once. Errors: those of the source.
Result<Model> BindModel(const ModelSpec& spec, const TensorSource& source);

}  // namespace kv8
