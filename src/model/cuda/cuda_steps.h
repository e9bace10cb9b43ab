// The steps of a pass on the GPU.
#pragma once

#include "model/cuda/device_state.h"
#include "model/cuda/device_workspace.h"
#include "model/cuda/pass_inputs.h"
#include "model/cuda/weight_placer.h"
#include "model/steps.h"
#include "ops/cuda/cuda_ops.h"

namespace kv8::cuda {

/// Everything a pass works with. What it points to outlives it.
struct DeviceModel {
  const ModelSpec& config;
  const CudaOps& ops;
  const DeviceWeights& weights;
  const DeviceState& state;
  const DeviceWorkspace& work;
  const PassInputs& inputs;
  std::int32_t tokens = 0;  // to choose from, the first so many of the vocabulary
  int drafts = 0;
  std::int64_t observed_heads = 0;  // see WorkspaceSize
  int activation_parts = 1;         // see LinearArgs
};

/// One pass: enqueues work and neither waits nor allocates, so it can be captured. Combine is
/// deferred until the streams are read again: the next Mix does both at once.
/// Errors: those of CudaOps.
class CudaSteps final : public Steps {
 public:
  /// `streams` is one of the workspace's.
  CudaSteps(const DeviceModel& model, DeviceStream& stream, const PassShape& shape, float* streams)
      : m_(model), w_(model.work), stream_(stream), shape_(shape), streams_(streams) {}

  Result<void> Embed(const Weight& table) override;
  Result<void> NgramMemory(const PleWeights& weights, const LayerSpec& layer) override;
  Result<void> Mix(const HyperConnectionWeights& weights) override;
  Result<void> Gdn(const GdnLayerWeights& weights, const LayerSpec& layer) override;
  Result<void> ProjectAttention(const QsaLayerWeights& weights) override;
  Result<void> StoreKeyValue(const QsaLayerWeights& weights, const LayerSpec& layer) override;
  Result<void> ObserveKeyValue(const LayerSpec& layer) override;
  Result<void> Attend(const QsaLayerWeights& weights, const LayerSpec& layer) override;
  Result<void> Experts(const MoeWeights& weights) override;
  Result<void> Reduce() override { return {}; }  // there is one rank
  Result<void> Combine() override;
  Result<void> ObserveStreams(const LayerSpec&) override { return {}; }
  Result<void> Finish() override;
  Result<void> EmbedNext(const Weight& table) override;
  Result<void> ProjectEmbedding(const MtpWeights& weights) override;
  Result<void> ProjectStreams(const MtpWeights& weights) override;
  Result<void> AddEmbedding() override;
  Result<void> Head(const Weight& head) override;

  /// The most likely token of each row of logits, to workspace.best_tokens.
  Result<void> BestTokens();
  /// The token that each row's rule says, where it says one, to workspace.best_tokens.
  Result<void> ChooseTokens();

 private:
  Result<void> Embed(const Weight& table, std::int32_t streams, float* out);
  Result<void> Add(const float* y, const float* inject);
  /// With what every product needs filled in; rows of x are dense.
  Result<void> Multiply(LinearArgs args);
  Result<void> Project(const float* x, const Weight& weight, float* out);
  Result<void> Recur(const GdnWeights& weights, int gdn_layer);
  Result<SparseAttentionArgs> Select(int kv_layer, std::int32_t first, std::int32_t rows);

  const DeviceModel& m_;
  const DeviceWorkspace& w_;
  DeviceStream& stream_;
  const PassShape& shape_;
  float* const streams_;
  bool combine_deferred_ = false;  // workspace.y is not in the streams yet
};

}  // namespace kv8::cuda
