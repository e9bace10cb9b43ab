// The steps of a forward pass. A backend says how each is done; src/model/forward.h says which come
// when.
#pragma once

#include "kv8/error.h"
#include "tensor/model_weights.h"

namespace kv8 {

/// One pass over the rows of one batch, on one device. A step may only enqueue its work, and a
/// backend may fuse a step with the next one that reads its result: what a caller sees is the
/// order. T rows, S streams, H hidden; R [T,S*H] are the residual streams of the pass.
///
/// Errors of every step: those of the device; on the CPU, of reading n-gram rows alone.
class Steps {
 public:
  virtual ~Steps() = default;

  /// R = embedding of each row's id, in every stream.
  virtual Result<void> Embed(const Weight& table) = 0;
  /// R += n-gram memory of the ids.
  virtual Result<void> NgramMemory(const PleWeights& weights, const LayerSpec& layer) = 0;
  /// x [T,H] = what the next step of the layer reads from R, and how it will be added.
  virtual Result<void> Mix(const HyperConnectionWeights& weights) = 0;
  /// y [T,H] = GDN(x); recurrent states advance; those between rows are kept where a rollback may
  /// need them.
  virtual Result<void> Gdn(const GdnLayerWeights& weights, const LayerSpec& layer) = 0;
  /// Query, key, value and index vectors of x.
  virtual Result<void> ProjectAttention(const QsaLayerWeights& weights) = 0;
  /// Keys, values and index keys go to the caches.
  virtual Result<void> StoreKeyValue(const QsaLayerWeights& weights, const LayerSpec& layer) = 0;
  /// What was stored, before it was rounded, is counted where a run measures ranges.
  virtual Result<void> ObserveKeyValue(const LayerSpec& layer) = 0;
  /// y = attention of the projected queries over the chosen selection blocks.
  virtual Result<void> Attend(const QsaLayerWeights& weights, const LayerSpec& layer) = 0;
  /// y = experts(x).
  virtual Result<void> Experts(const MoeWeights& weights) = 0;
  /// y = sum of y over the ranks that share the layer.
  virtual Result<void> Reduce() = 0;
  /// R += y, as the last Mix said.
  virtual Result<void> Combine() = 0;
  /// R is complete behind this layer: observers may look.
  virtual Result<void> ObserveStreams(const LayerSpec& layer) = 0;
  /// Does what other steps have deferred.
  virtual Result<void> Finish() = 0;

  /// x = embedding of each row's next id.
  virtual Result<void> EmbedNext(const Weight& table) = 0;
  /// e [T,H] = projection of the norm of x.
  virtual Result<void> ProjectEmbedding(const MtpWeights& weights) = 0;
  /// R = projection, stream by stream, of the norm of the target's streams.
  virtual Result<void> ProjectStreams(const MtpWeights& weights) = 0;
  /// R += e, in every stream.
  virtual Result<void> AddEmbedding() = 0;

  /// logits [T,V] = x . head^T
  virtual Result<void> Head(const Weight& head) = 0;
};

}  // namespace kv8
