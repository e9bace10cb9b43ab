// The model's weights as the GPU's ops take them.
#pragma once

#include <optional>
#include <vector>

#include "device/arena.h"
#include "device/device.h"
#include "model/model.h"
#include "ops/cuda/linear.h"

namespace kv8::cuda {

struct DeviceHyper {
  const float* gain = nullptr;
  WeightArray down{}, up{}, inject{};  // inject is null in a final mixer
};

struct DeviceGdn {
  WeightArray qkv, z, b, a, out;
  const float *conv, *decay, *dt_bias, *norm;
};

struct DeviceQsa {
  WeightArray q, k, v, out, index_qk;
  const float *q_gain, *k_gain, *index_q_gain, *index_k_gain;
};

struct DeviceMoe {
  WeightArray router, gate_up, down;
  WeightArray shared_gate_proj, shared_up_proj, shared_down_proj, shared_gate;
};

struct DevicePle {
  const PleHash* hash = nullptr;
  const std::int64_t *head_sizes, *offsets;
  const std::uint16_t* const* shards;
  std::int64_t shard_rows = 0;
  WeightType table_type{};
  WeightArray key, value;
  const float *gain_key, *gain_query, *gain_conv, *conv;
};

struct DeviceLayer {
  std::optional<DevicePle> ple;
  DeviceHyper attention;
  std::optional<DeviceGdn> gdn;
  std::optional<DeviceQsa> qsa;
  DeviceHyper mlp;
  DeviceMoe moe;
};

struct DeviceDraft {
  WeightArray embedding_projection, hidden_projection;
  const float *embedding_gain, *hidden_gain, *inv_freq;
  DeviceLayer layer;
  DeviceHyper mixer;
};

struct DeviceWeights {
  WeightArray embed{}, lm_head{};
  const float* inv_freq = nullptr;
  std::vector<DeviceLayer> layers;
  DeviceHyper mixer;
  std::optional<DeviceDraft> draft;  // only when the draft head runs
};

/// Gives every weight of a model a place, and remembers what goes there.
class WeightPlacer {
 public:
  /// Rows that are looked up, embedding and n-gram tables, go to `tables`; all else to `arrays`.
  WeightPlacer(Arena& arrays, Arena& tables) : arrays_(arrays), tables_(tables) {}

  /// Errors: kUnsupported for a matrix that is neither BF16 nor FP16.
  Result<DeviceWeights> Place(const Model& model, bool with_draft);
  /// Copies to the places of the last Place. Waits until it is done.
  Result<void> Upload(DeviceStream& stream) const;

 private:
  struct Piece {
    void* to;
    const void* from;
    std::int64_t bytes;
  };

  template <class T>
  const T* Put(Arena& arena, const T* values, std::int64_t count);
  const float* Put(const std::vector<float>& values);
  WeightArray Put(const WeightView& weight, Arena& arena);
  WeightArray Put(const WeightView& weight) { return Put(weight, arrays_); }
  DeviceHyper Put(const HyperConnectionWeights& weights);
  DeviceGdn Put(const GdnLayerWeights& weights);
  DeviceQsa Put(const QsaLayerWeights& weights);
  DeviceMoe Put(const MoeWeights& weights);
  DevicePle Put(const PleWeights& weights);
  DeviceLayer Put(const LayerWeights& weights);
  DeviceDraft Put(const MtpWeights& weights, const std::vector<float>& inv_freq);

  Arena& arrays_;
  Arena& tables_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<const std::uint16_t*>> shard_lists_;  // what some pieces copy
  std::optional<Error> error_;
};

}  // namespace kv8::cuda
