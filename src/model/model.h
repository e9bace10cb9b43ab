// The model: dimensions, and weights bound to a checkpoint.
#pragma once

#include <utility>

#include "checkpoint/checkpoint.h"
#include "kv8/error.h"
#include "kvcache/state_layout.h"
#include "model/weights.h"

namespace kv8 {

/// Immutable after Create; the checkpoint must outlive it.
/// Source: docs/spec/numerics.md. S streams, H hidden, V vocabulary.
class Model {
 public:
  /// Errors: those of BindWeights.
  static Result<Model> Create(const Checkpoint& checkpoint);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }

  /// QSA layers that need K/V pools; the draft layer, when wanted, is the last.
  int KvLayers(bool with_draft) const;
  /// Number in the checkpoint of K/V layer `kv_layer` (draft: the number of target layers).
  int LayerOfKv(int kv_layer) const;
  /// S*H, of one row's residual streams.
  std::int64_t stream_width() const { return std::int64_t{config_.streams} * config_.hidden; }
  /// State of one sequence.
  StateLayout SequenceLayout(bool with_draft) const;

 private:
  Model(ModelConfig config, ModelWeights weights)
      : config_(std::move(config)), weights_(std::move(weights)) {}

  ModelConfig config_;
  ModelWeights weights_;
};

}  // namespace kv8
