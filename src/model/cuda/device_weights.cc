#include "model/cuda/device_weights.h"

#include <fmt/format.h>

#include <utility>

namespace kv8::cuda {

template <class T>
const T* WeightPlacer::Put(Arena& arena, const T* values, std::int64_t count) {
  T* const to = arena.Take<T>(count);
  pieces_.push_back({to, values, count * static_cast<std::int64_t>(sizeof(T))});
  return to;
}

const float* WeightPlacer::Put(const std::vector<float>& values) {
  return Put(arrays_, values.data(), std::ssize(values));
}

WeightArray WeightPlacer::Put(const WeightView& weight, Arena& arena) {
  if (weight.empty()) return {};
  if (weight.dtype != DType::kBF16 && weight.dtype != DType::kF16) {
    error_ = Error{Code::kUnsupported,
                   fmt::format("a matrix of {} x {} is {}, the GPU has BF16 and F16", weight.rows,
                               weight.cols, Name(weight.dtype)),
                   "--device cuda", "convert the checkpoint to BF16, or run with --device cpu"};
  }
  const auto* const bytes = reinterpret_cast<const char*>(weight.data);  // maybe unaligned
  const char* const to = Put(arena, bytes, weight.rows * weight.cols * SizeOf(weight.dtype));
  return {reinterpret_cast<const std::uint16_t*>(to),
          weight.dtype == DType::kBF16 ? WeightType::kBf16 : WeightType::kFp16,
          static_cast<std::int32_t>(weight.rows)};
}

DeviceHyper WeightPlacer::Put(const HyperConnectionWeights& w) {
  return {Put(w.gain), Put(w.down), Put(w.up), Put(w.inject)};
}

DeviceGdn WeightPlacer::Put(const GdnLayerWeights& w) {
  return {Put(w.qkv),      Put(w.z),         Put(w.b),          Put(w.a),
          Put(w.out),      Put(w.core.conv), Put(w.core.decay), Put(w.core.dt_bias),
          Put(w.core.norm)};
}

DeviceQsa WeightPlacer::Put(const QsaLayerWeights& w) {
  return {Put(w.q),           Put(w.k),      Put(w.v),      Put(w.out),
          Put(w.index_qk),    Put(w.q_gain), Put(w.k_gain), Put(w.index_q_gain),
          Put(w.index_k_gain)};
}

DeviceMoe WeightPlacer::Put(const MoeWeights& w) {
  return {Put(w.router),           Put(w.gate_up),        Put(w.down),
          Put(w.shared_gate_proj), Put(w.shared_up_proj), Put(w.shared_down_proj),
          Put(w.shared_gate)};
}

DevicePle WeightPlacer::Put(const PleWeights& w) {
  DevicePle ple{.hash = &w.hash,
                .head_sizes = Put(arrays_, w.hash.head_sizes.data(), std::ssize(w.hash.head_sizes)),
                .offsets = Put(arrays_, w.hash.offsets.data(), std::ssize(w.hash.offsets)),
                .shard_rows = w.shards.front().rows};
  std::vector<const std::uint16_t*>& shards = shard_lists_.emplace_back();
  for (const WeightView& shard : w.shards) {
    const WeightArray array = Put(shard, tables_);
    ple.table_type = array.type;
    shards.push_back(array.data);
  }
  ple.shards = Put(arrays_, shards.data(), std::ssize(shards));
  ple.key = Put(w.key);
  ple.value = Put(w.value);
  ple.gain_key = Put(w.gain_key);
  ple.gain_query = Put(w.gain_query);
  ple.gain_conv = Put(w.gain_conv);
  ple.conv = Put(w.conv);
  return ple;
}

DeviceLayer WeightPlacer::Put(const LayerWeights& w) {
  DeviceLayer layer;
  if (w.ple) layer.ple = Put(*w.ple);
  layer.attention = Put(w.attention_connection);
  if (w.gdn) layer.gdn = Put(*w.gdn);
  if (w.qsa) layer.qsa = Put(*w.qsa);
  layer.mlp = Put(w.mlp_connection);
  layer.moe = Put(w.moe);
  return layer;
}

DeviceDraft WeightPlacer::Put(const MtpWeights& w, const std::vector<float>& inv_freq) {
  return {.embedding_projection = Put(w.embedding_projection),
          .hidden_projection = Put(w.hidden_projection),
          .embedding_gain = Put(w.embedding_gain),
          .hidden_gain = Put(w.hidden_gain),
          .inv_freq = Put(inv_freq),
          .layer = Put(w.layer),
          .mixer = Put(w.mixer)};
}

Result<DeviceWeights> WeightPlacer::Place(const Model& model, bool with_draft) {
  const ModelWeights& w = model.weights();
  pieces_.clear();
  shard_lists_.clear();
  DeviceWeights placed;
  placed.embed = Put(w.embed, tables_);
  placed.lm_head = Put(w.lm_head);
  placed.inv_freq = Put(model.inv_freq());
  for (const LayerWeights& layer : w.layers) placed.layers.push_back(Put(layer));
  placed.mixer = Put(w.mixer);
  if (with_draft) placed.draft = Put(*w.mtp, model.draft_inv_freq());
  if (error_) return *error_;
  return placed;
}

Result<void> WeightPlacer::Upload(DeviceStream& stream) const {
  for (const Piece& piece : pieces_) {
    KV8_RETURN_IF_ERROR(stream.Copy(piece.to, piece.from, piece.bytes));
  }
  return stream.Synchronize();
}

}  // namespace kv8::cuda
