// The model: weights bound to a checkpoint, and one readable forward pass.
#pragma once

#include <vector>

#include "checkpoint/checkpoint.h"
#include "kv8/error.h"
#include "kvcache/kv_cache.h"
#include "kvcache/sequence_state.h"
#include "model/batch.h"
#include "model/observer.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/op_table.h"

namespace kv8 {

/// Everything a pass works on besides weights and rows. The caller owns all of it.
struct ForwardContext {
  OpContext ops;
  KvCache& cache;
  Workspace& workspace;
  ForwardObserver* observer = nullptr;
};

/// Immutable after Create; the checkpoint must outlive it.
/// Source: docs/spec/numerics.md. S streams, H hidden, V vocabulary.
class Model {
 public:
  /// Errors: those of BindWeights.
  static Result<Model> Create(const Checkpoint& checkpoint, const OpTable& ops);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }
  /// Of target and draft, see RopeFrequencies.
  const std::vector<float>& inv_freq() const { return inv_freq_; }
  const std::vector<float>& draft_inv_freq() const { return draft_inv_freq_; }

  /// QSA layers that need K/V pools; the draft layer, when wanted, is the last.
  int KvLayers(bool with_draft) const;
  /// Number in the checkpoint of K/V layer `kv_layer` (draft: the number of target layers).
  int LayerOfKv(int kv_layer) const;
  /// State of one sequence.
  StateLayout SequenceLayout(bool with_draft) const;

  /// Runs the target. Writes the residual streams of every row after the last layer, [T,S*H];
  /// caches and sequence states advance by the batch's rows.
  void Forward(const ForwardContext& context, const Batch& batch, Matrix streams) const;

  /// Mixer and head for the given rows' streams [R,S*H]; logits [R,V].
  void Logits(const ForwardContext& context, ConstMatrix streams, Matrix logits) const;

  /// Runs the draft head. batch.ids[t] is the token after row t; `target` [T,S*H] holds row t's
  /// streams from Forward, or from Draft for further steps. Writes the draft's streams [T,S*H].
  /// Requires config().mtp and a cache and states made with_draft.
  void Draft(const ForwardContext& context, const Batch& batch, ConstMatrix target,
             Matrix streams) const;

  /// The draft's mixer and the shared head.
  void DraftLogits(const ForwardContext& context, ConstMatrix streams, Matrix logits) const;

 private:
  Model(ModelConfig config, ModelWeights weights, const OpTable& ops);

  const ModelConfig config_;
  const ModelWeights weights_;
  const OpTable& ops_;
  std::vector<float> inv_freq_;
  std::vector<float> draft_inv_freq_;
};

}  // namespace kv8
