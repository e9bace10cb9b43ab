// The forward pass over the GPU's ops. Same order of the same steps as Model and its layers.
#pragma once

#include "model/cuda/device_state.h"
#include "model/cuda/device_weights.h"
#include "model/cuda/device_workspace.h"
#include "model/cuda/pass_block.h"
#include "ops/cuda/cuda_ops.h"

namespace kv8::cuda {

/// Everything a pass works with. What it points to outlives it.
struct DeviceModel {
  const ModelConfig& config;
  const CudaOps& ops;
  const DeviceWeights& weights;
  const DeviceState& state;
  const DeviceWorkspace& work;
  const PassBlock& block;
  int drafts = 0;
};

/// One pass: enqueues work and neither waits nor allocates, so it can be captured.
/// Errors: those of CudaOps.
class DevicePass {
 public:
  DevicePass(const DeviceModel& model, DeviceStream& stream, const PassShape& shape)
      : m_(model), w_(model.work), stream_(stream), shape_(shape) {}

  /// The target over the block's rows; streams to workspace.streams.
  Result<void> Forward();
  /// The draft head over the block's rows, from workspace.draft_input to workspace.draft_streams.
  Result<void> Draft();
  /// Mixer and head over the first `rows` of workspace.token_streams; to workspace.logits.
  Result<void> Logits(std::int32_t rows, bool draft);
  /// The same, and the most likely token of each row to workspace.best_tokens.
  Result<void> BestTokens(std::int32_t rows, bool draft);
  /// The same for the target, and then the token that each row's rule says.
  Result<void> ChooseTokens(std::int32_t rows);

 private:
  /// What a block reads from the streams, once the output of the block before is in them.
  Result<void> Mix(const DeviceHyper& weights, float* streams, std::int32_t rows);
  /// The output of the last block goes into the streams now.
  Result<void> Settle(float* streams);
  Result<void> Combine(const float* y, const float* inject, float* streams);
  Result<void> Project(const float* x, std::int32_t inner, WeightArray weight, float* out);
  Result<void> Ple(const DevicePle& weights, int layer);
  Result<void> Gdn(const DeviceLayer& layer, int gdn_layer);
  Result<void> Recur(const DeviceGdn& weights, int gdn_layer);
  Result<void> Qsa(const DeviceLayer& layer, int kv_layer, const float* inv_freq, float* streams);
  Result<void> Store(const DeviceQsa& weights, int kv_layer, const float* inv_freq);
  Result<SparseAttentionArgs> Select(int kv_layer, std::int32_t first, std::int32_t rows);
  Result<void> Moe(const DeviceLayer& layer, float* streams);

  const DeviceModel& m_;
  const DeviceWorkspace& w_;
  DeviceStream& stream_;
  const PassShape& shape_;
  bool unsettled_ =
      false;  // workspace.y holds the output of a block that is not in the streams yet
};

}  // namespace kv8::cuda
