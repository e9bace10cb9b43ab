#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "checkpoint/finite.h"
#include "checkpoint/ple_constants.h"
#include "checkpoint/read_floats.h"

namespace kv8 {
namespace {

using Shape = std::initializer_list<std::int64_t>;

/// Reads the tensors below one name prefix.
class Binder {
 public:
  Binder(const Checkpoint& checkpoint, std::string prefix)
      : checkpoint_(checkpoint), prefix_(std::move(prefix)) {}

  Binder Under(std::string_view part) const {
    return Binder(checkpoint_, fmt::format("{}{}.", prefix_, part));
  }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelConfig& config() const { return checkpoint_.config(); }

  /// A matrix [rows,cols] as it is mapped; a stack [e,rows,cols] counts as [e*rows,cols].
  Result<WeightView> Weight(std::string_view name, Shape shape) const {
    const std::string full = fmt::format("{}{}", prefix_, name);
    KV8_ASSIGN_OR_RETURN(const TensorView tensor,
                         checkpoint_.Get(full, {shape.begin(), shape.size()}));
    const std::int64_t cols = tensor.shape.back();
    return WeightView{tensor.data, tensor.dtype, tensor.elements() / cols, cols};
  }

  /// A small tensor as finite FP32 values, each plus `offset`.
  Result<std::vector<float>> Vector(std::string_view name, Shape shape, float offset = 0) const {
    const std::string full = fmt::format("{}{}", prefix_, name);
    KV8_ASSIGN_OR_RETURN(const TensorView tensor,
                         checkpoint_.Get(full, {shape.begin(), shape.size()}));
    KV8_RETURN_IF_ERROR(CheckFinite(tensor, full, checkpoint_.FileOf(full).string()));
    std::vector<float> values = ReadFloats(tensor);
    for (float& value : values) value += offset;
    return values;
  }

  /// Centered norms multiply by 1 + w; the sum is kept in FP32.
  Result<std::vector<float>> Gain(std::string_view name, std::int64_t size) const {
    return Vector(name, {size}, 1.0f);
  }

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
};

Result<HyperConnectionWeights> BindHyperConnection(const Binder& at, bool with_inject) {
  const ModelConfig& c = at.config();
  const std::int64_t width = static_cast<std::int64_t>(c.streams) * c.hidden;
  HyperConnectionWeights w;
  KV8_ASSIGN_OR_RETURN(w.gain, at.Gain("hc_norm.weight", width));
  KV8_ASSIGN_OR_RETURN(w.down, at.Weight("input_mix_weight_down.weight", {c.lowrank, width}));
  KV8_ASSIGN_OR_RETURN(w.up, at.Weight("input_mix_weight_up.weight", {width, c.lowrank}));
  if (with_inject) {
    KV8_ASSIGN_OR_RETURN(w.inject, at.Weight("block_inject_weight.weight", {c.streams, width}));
  }
  return w;
}

Result<GdnLayerWeights> BindGdn(const Binder& at) {
  const std::int64_t hidden = at.config().hidden;
  const GdnConfig& g = at.config().gdn;
  const std::int64_t channels = g.conv_channels();
  const std::int64_t values = static_cast<std::int64_t>(g.value_heads) * g.value_dim;
  GdnLayerWeights w;
  KV8_ASSIGN_OR_RETURN(w.qkv, at.Weight("in_proj_qkv.weight", {channels, hidden}));
  KV8_ASSIGN_OR_RETURN(w.z, at.Weight("in_proj_z.weight", {values, hidden}));
  KV8_ASSIGN_OR_RETURN(w.b, at.Weight("in_proj_b.weight", {g.value_heads, hidden}));
  KV8_ASSIGN_OR_RETURN(w.a, at.Weight("in_proj_a.weight", {g.value_heads, hidden}));
  KV8_ASSIGN_OR_RETURN(w.out, at.Weight("out_proj.weight", {hidden, values}));
  KV8_ASSIGN_OR_RETURN(w.core.conv, at.Vector("conv1d.weight", {channels, 1, g.conv_kernel}));
  KV8_ASSIGN_OR_RETURN(w.core.decay, at.Vector("A_log", {g.value_heads}));
  for (float& a : w.core.decay) a = -std::exp(a);
  KV8_ASSIGN_OR_RETURN(w.core.dt_bias, at.Vector("dt_bias", {g.value_heads}));
  KV8_ASSIGN_OR_RETURN(w.core.norm, at.Vector("norm.weight", {g.value_dim}));
  return w;
}

Result<QsaLayerWeights> BindQsa(const Binder& at) {
  const std::int64_t hidden = at.config().hidden;
  const QsaConfig& q = at.config().qsa;
  const std::int64_t query = static_cast<std::int64_t>(q.query_heads) * q.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(q.kv_heads) * q.head_dim;
  QsaLayerWeights w;
  KV8_ASSIGN_OR_RETURN(w.q, at.Weight("q_proj.weight", {2 * query, hidden}));
  KV8_ASSIGN_OR_RETURN(w.k, at.Weight("k_proj.weight", {kv, hidden}));
  KV8_ASSIGN_OR_RETURN(w.v, at.Weight("v_proj.weight", {kv, hidden}));
  KV8_ASSIGN_OR_RETURN(w.out, at.Weight("o_proj.weight", {hidden, query}));
  KV8_ASSIGN_OR_RETURN(w.q_gain, at.Gain("q_norm.weight", q.head_dim));
  KV8_ASSIGN_OR_RETURN(w.k_gain, at.Gain("k_norm.weight", q.head_dim));
  const std::int64_t index_rows = static_cast<std::int64_t>(q.index_heads + 1) * q.index_dim;
  KV8_ASSIGN_OR_RETURN(w.index_qk, at.Weight("indexer.index_qk_proj.weight", {index_rows, hidden}));
  KV8_ASSIGN_OR_RETURN(w.index_q_gain, at.Gain("indexer.q_layernorm.weight", q.index_dim));
  KV8_ASSIGN_OR_RETURN(w.index_k_gain, at.Gain("indexer.k_layernorm.weight", q.index_dim));
  return w;
}

Result<MoeWeights> BindMoe(const Binder& at) {
  const std::int64_t hidden = at.config().hidden;
  const MoeConfig& m = at.config().moe;
  MoeWeights w;
  KV8_ASSIGN_OR_RETURN(w.router, at.Weight("gate.weight", {m.experts, hidden}));
  KV8_ASSIGN_OR_RETURN(w.gate_up,
                       at.Weight("experts.gate_up_proj", {m.experts, 2 * m.expert_dim, hidden}));
  KV8_ASSIGN_OR_RETURN(w.down, at.Weight("experts.down_proj", {m.experts, hidden, m.expert_dim}));
  KV8_ASSIGN_OR_RETURN(w.shared_gate_proj,
                       at.Weight("shared_expert.gate_proj.weight", {m.shared_expert_dim, hidden}));
  KV8_ASSIGN_OR_RETURN(w.shared_up_proj,
                       at.Weight("shared_expert.up_proj.weight", {m.shared_expert_dim, hidden}));
  KV8_ASSIGN_OR_RETURN(w.shared_down_proj,
                       at.Weight("shared_expert.down_proj.weight", {hidden, m.shared_expert_dim}));
  KV8_ASSIGN_OR_RETURN(w.shared_gate, at.Weight("shared_expert_gate.weight", {1, hidden}));
  return w;
}

PleHash HashOf(const ModelConfig& config, const PleConstants& constants) {
  return PleHash{.multipliers = constants.multipliers,
                 .head_sizes = constants.head_sizes,
                 .offsets = constants.offsets,
                 .heads_per_ngram = config.ple->heads_per_ngram,
                 .eos = *config.eos};
}

Result<PleWeights> BindPle(const Binder& at, int ple_index) {
  const ModelConfig& c = at.config();
  const PleConfig& p = *c.ple;
  const std::int64_t width = static_cast<std::int64_t>(c.streams) * c.hidden;
  PleWeights w;
  // Derived from config.json; the checkpoint reader has compared them with the stored ones.
  const PleConstants constants = DerivePleConstants(p, c.vocab, ple_index);
  w.hash = HashOf(c, constants);
  const std::int64_t shard_rows = constants.padded_rows / p.parts;
  const Binder table = at.Under("ple_embedding").Under("ngram_embedding");
  for (int part = 0; part < p.parts; ++part) {
    KV8_ASSIGN_OR_RETURN(WeightView shard, table.Weight(fmt::format("shard_{}.weight", part),
                                                        {shard_rows, p.head_dim()}));
    w.shards.push_back(shard);
  }
  KV8_ASSIGN_OR_RETURN(w.key, at.Weight("key_proj.weight", {width, p.embed_dim}));
  KV8_ASSIGN_OR_RETURN(w.value, at.Weight("value_proj.weight", {c.hidden, p.embed_dim}));
  KV8_ASSIGN_OR_RETURN(w.gain_key, at.Gain("norm_key.weight", width));
  KV8_ASSIGN_OR_RETURN(w.gain_query, at.Gain("norm_query.weight", width));
  KV8_ASSIGN_OR_RETURN(w.gain_conv, at.Gain("norm_conv.weight", width));
  KV8_ASSIGN_OR_RETURN(w.conv, at.Vector("conv1d.weight", {width, 1, p.conv_kernel}));
  return w;
}

Result<LayerWeights> BindLayer(const Binder& at, LayerKind kind) {
  LayerWeights w;
  KV8_ASSIGN_OR_RETURN(w.attention_connection,
                       BindHyperConnection(at.Under("attn_hyper_connection"), true));
  KV8_ASSIGN_OR_RETURN(w.mlp_connection,
                       BindHyperConnection(at.Under("mlp_hyper_connection"), true));
  KV8_ASSIGN_OR_RETURN(w.moe, BindMoe(at.Under("mlp")));
  if (kind == LayerKind::kGdn) {
    KV8_ASSIGN_OR_RETURN(w.gdn, BindGdn(at.Under("linear_attn")));
  } else {
    KV8_ASSIGN_OR_RETURN(w.qsa, BindQsa(at.Under("self_attn")));
  }
  return w;
}

Result<std::vector<LayerWeights>> BindLayers(const Binder& at) {
  const ModelConfig& c = at.config();
  std::vector<LayerWeights> layers;
  int ple_index = 0;
  for (int i = 0; i < c.layers; ++i) {
    const Binder layer = at.Under("layers").Under(std::to_string(i));
    KV8_ASSIGN_OR_RETURN(LayerWeights w,
                         BindLayer(layer, c.layer_kinds[static_cast<std::size_t>(i)]));
    if (c.ple && std::find(c.ple->layers.begin(), c.ple->layers.end(), i) != c.ple->layers.end()) {
      KV8_ASSIGN_OR_RETURN(w.ple, BindPle(layer.Under("ple"), ple_index++));
    }
    layers.push_back(std::move(w));
  }
  return layers;
}

Result<MtpWeights> BindMtp(const Binder& at) {
  const ModelConfig& c = at.config();
  MtpWeights w;
  KV8_ASSIGN_OR_RETURN(w.embedding_projection,
                       at.Weight("fc_embedding.weight", {c.hidden, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.hidden_projection, at.Weight("fc_hidden.weight", {c.hidden, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.embedding_gain, at.Gain("pre_fc_norm_embedding.weight", c.hidden));
  KV8_ASSIGN_OR_RETURN(w.hidden_gain, at.Gain("pre_fc_norm_hidden.weight",
                                              static_cast<std::int64_t>(c.streams) * c.hidden));
  KV8_ASSIGN_OR_RETURN(w.layer, BindLayer(at.Under("layers.0"), LayerKind::kQsa));
  KV8_ASSIGN_OR_RETURN(w.mixer, BindHyperConnection(at.Under("hyper_connection_mixer"), false));
  return w;
}

}  // namespace

Result<ModelWeights> BindWeights(const Checkpoint& checkpoint) {
  const ModelConfig& c = checkpoint.config();
  const Binder root(checkpoint, "");
  const Binder text = root.Under("model");
  ModelWeights w;
  KV8_ASSIGN_OR_RETURN(w.embed, text.Weight("embed_tokens.weight", {c.vocab, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.lm_head, root.Weight("lm_head.weight", {c.vocab, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.layers, BindLayers(text));
  KV8_ASSIGN_OR_RETURN(w.mixer, BindHyperConnection(text.Under("hyper_connection_mixer"), false));
  if (c.mtp) {
    KV8_ASSIGN_OR_RETURN(w.mtp, BindMtp(root.Under("mtp")));
  }
  return w;
}

}  // namespace kv8
