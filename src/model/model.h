// The model: what its configuration means, and weights bound to it.
#pragma once

#include "kv8/error.h"
#include "model/weights.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// Source: docs/spec/numerics.md. S streams, H hidden, V vocabulary.
struct Model {
  ModelSpec spec;
  ModelWeights weights;

  /// Errors: those of BindWeights.
  static Result<Model> Bind(const ModelSpec& spec, const TensorSource& source) {
    KV8_ASSIGN_OR_RETURN(ModelWeights weights, BindWeights(spec, source));
    return Model{spec, std::move(weights)};
  }
};

}  // namespace kv8
