// A model, or a rank's part of it, from the tensors of a checkpoint.
#pragma once

#include "family/shard.h"
#include "family/tensor_source.h"
#include "kv8/error.h"
#include "tensor/model_weights.h"

namespace kv8 {

/// Binds every tensor of the rank's part: matrices stay where the source has them, except what
/// TakePart copies; vectors (norms, gates, short convolutions) become FP32 once. `spec` is of the
/// whole model, the result's is SpecOf(spec, shard). Errors: those of the source and of TakePart.
Result<Model> BindModel(const ModelSpec& spec, const TensorSource& source, const Shard& shard);
/// Binds the whole model.
Result<Model> BindModel(const ModelSpec& spec, const TensorSource& source);

}  // namespace kv8
