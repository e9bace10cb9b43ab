#include "family/bind_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>

#include "family/ple_constants.h"
#include "tensor/rope_frequencies.h"

namespace kv8 {
namespace {

using Shape = std::initializer_list<std::int64_t>;

/// Reads the tensors below one name prefix.
class Binder {
 public:
  /// Vectors are kept in `vectors`, whose own address must stay.
  Binder(const ModelSpec& spec, const TensorSource& source,
         std::vector<std::vector<float>>& vectors, std::string prefix)
      : spec_(spec), source_(source), vectors_(vectors), prefix_(std::move(prefix)) {}

  Binder Under(std::string_view part) const {
    return Binder(spec_, source_, vectors_, fmt::format("{}{}.", prefix_, part));
  }
  const ModelSpec& spec() const { return spec_; }

  /// A matrix [rows,cols]; a stack [e,rows,cols] counts as [e*rows,cols].
  Result<Weight> Matrix(std::string_view name, Shape shape) const {
    return source_.Matrix(fmt::format("{}{}", prefix_, name), {shape.begin(), shape.size()});
  }

  /// A small tensor as finite FP32 values, each changed by `map`.
  template <class Map = std::identity>
  Result<std::span<const float>> Vector(std::string_view name, Shape shape, Map map = {}) const {
    KV8_ASSIGN_OR_RETURN(
        std::vector<float> values,
        source_.Vector(fmt::format("{}{}", prefix_, name), {shape.begin(), shape.size()}));
    std::ranges::transform(values, values.begin(), map);
    return Keep(std::move(values));
  }

  /// Centered norms multiply by 1 + w; the sum is kept in FP32.
  Result<std::span<const float>> Gain(std::string_view name, std::int64_t size) const {
    return Vector(name, {size}, [](float w) { return 1.0f + w; });
  }

  std::span<const float> Keep(std::vector<float> values) const {
    return vectors_.emplace_back(std::move(values));
  }

 private:
  const ModelSpec& spec_;
  const TensorSource& source_;
  std::vector<std::vector<float>>& vectors_;
  std::string prefix_;
};

Result<HyperConnectionWeights> BindHyperConnection(const Binder& at, bool with_inject) {
  const ModelSpec& c = at.spec();
  const std::int64_t width = c.stream_width();
  HyperConnectionWeights w;
  KV8_ASSIGN_OR_RETURN(w.gain, at.Gain("hc_norm.weight", width));
  KV8_ASSIGN_OR_RETURN(w.down, at.Matrix("input_mix_weight_down.weight", {c.lowrank, width}));
  KV8_ASSIGN_OR_RETURN(w.up, at.Matrix("input_mix_weight_up.weight", {width, c.lowrank}));
  if (with_inject) {
    KV8_ASSIGN_OR_RETURN(w.inject, at.Matrix("block_inject_weight.weight", {c.streams, width}));
  }
  return w;
}

Result<GdnLayerWeights> BindGdn(const Binder& at) {
  const std::int64_t hidden = at.spec().hidden;
  const GdnConfig& g = at.spec().gdn;
  const std::int64_t channels = g.conv_channels();
  const std::int64_t values = static_cast<std::int64_t>(g.value_heads) * g.value_dim;
  GdnLayerWeights w;
  KV8_ASSIGN_OR_RETURN(w.qkv, at.Matrix("in_proj_qkv.weight", {channels, hidden}));
  KV8_ASSIGN_OR_RETURN(w.z, at.Matrix("in_proj_z.weight", {values, hidden}));
  KV8_ASSIGN_OR_RETURN(w.b, at.Matrix("in_proj_b.weight", {g.value_heads, hidden}));
  KV8_ASSIGN_OR_RETURN(w.a, at.Matrix("in_proj_a.weight", {g.value_heads, hidden}));
  KV8_ASSIGN_OR_RETURN(w.out, at.Matrix("out_proj.weight", {hidden, values}));
  KV8_ASSIGN_OR_RETURN(w.core.conv, at.Vector("conv1d.weight", {channels, 1, g.conv_kernel}));
  KV8_ASSIGN_OR_RETURN(w.core.decay,
                       at.Vector("A_log", {g.value_heads}, [](float a) { return -std::exp(a); }));
  KV8_ASSIGN_OR_RETURN(w.core.dt_bias, at.Vector("dt_bias", {g.value_heads}));
  KV8_ASSIGN_OR_RETURN(w.core.norm, at.Vector("norm.weight", {g.value_dim}));
  return w;
}

Result<QsaLayerWeights> BindQsa(const Binder& at, double rope_theta) {
  const std::int64_t hidden = at.spec().hidden;
  const QsaConfig& q = at.spec().qsa;
  const std::int64_t query = static_cast<std::int64_t>(q.query_heads) * q.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(q.kv_heads) * q.head_dim;
  QsaLayerWeights w;
  KV8_ASSIGN_OR_RETURN(w.q, at.Matrix("q_proj.weight", {2 * query, hidden}));
  KV8_ASSIGN_OR_RETURN(w.k, at.Matrix("k_proj.weight", {kv, hidden}));
  KV8_ASSIGN_OR_RETURN(w.v, at.Matrix("v_proj.weight", {kv, hidden}));
  KV8_ASSIGN_OR_RETURN(w.out, at.Matrix("o_proj.weight", {hidden, query}));
  KV8_ASSIGN_OR_RETURN(w.q_gain, at.Gain("q_norm.weight", q.head_dim));
  KV8_ASSIGN_OR_RETURN(w.k_gain, at.Gain("k_norm.weight", q.head_dim));
  const std::int64_t index_rows = static_cast<std::int64_t>(q.index_heads + 1) * q.index_dim;
  KV8_ASSIGN_OR_RETURN(w.index_qk, at.Matrix("indexer.index_qk_proj.weight", {index_rows, hidden}));
  KV8_ASSIGN_OR_RETURN(w.index_q_gain, at.Gain("indexer.q_layernorm.weight", q.index_dim));
  KV8_ASSIGN_OR_RETURN(w.index_k_gain, at.Gain("indexer.k_layernorm.weight", q.index_dim));
  w.inv_freq = at.Keep(RopeFrequencies(rope_theta, q.rotary_dim));
  return w;
}

Result<MoeWeights> BindMoe(const Binder& at) {
  const std::int64_t hidden = at.spec().hidden;
  const MoeConfig& m = at.spec().moe;
  MoeWeights w;
  KV8_ASSIGN_OR_RETURN(w.router, at.Matrix("gate.weight", {m.experts, hidden}));
  KV8_ASSIGN_OR_RETURN(const Weight gate_up,
                       at.Matrix("experts.gate_up_proj", {m.experts, 2 * m.expert_dim, hidden}));
  w.gate_up = ExpertsOf(gate_up, m.experts);
  KV8_ASSIGN_OR_RETURN(const Weight down,
                       at.Matrix("experts.down_proj", {m.experts, hidden, m.expert_dim}));
  w.down = ExpertsOf(down, m.experts);
  KV8_ASSIGN_OR_RETURN(w.shared_gate_proj,
                       at.Matrix("shared_expert.gate_proj.weight", {m.shared_expert_dim, hidden}));
  KV8_ASSIGN_OR_RETURN(w.shared_up_proj,
                       at.Matrix("shared_expert.up_proj.weight", {m.shared_expert_dim, hidden}));
  KV8_ASSIGN_OR_RETURN(w.shared_down_proj,
                       at.Matrix("shared_expert.down_proj.weight", {hidden, m.shared_expert_dim}));
  KV8_ASSIGN_OR_RETURN(w.shared_gate, at.Matrix("shared_expert_gate.weight", {1, hidden}));
  return w;
}

PleHash HashOf(const ModelSpec& config, const PleConstants& constants) {
  return PleHash{.multipliers = constants.multipliers,
                 .head_sizes = constants.head_sizes,
                 .offsets = constants.offsets,
                 .heads_per_ngram = config.ple->heads_per_ngram,
                 .eos = *config.eos};
}

Result<PleWeights> BindPle(const Binder& at, int ple_index) {
  const ModelSpec& c = at.spec();
  const PleConfig& p = *c.ple;
  const std::int64_t width = c.stream_width();
  PleWeights w;
  // Derived from config.json; the checkpoint reader has compared them with the stored ones.
  const PleConstants constants = DerivePleConstants(p, c.vocab, ple_index);
  w.hash = HashOf(c, constants);
  const std::int64_t shard_rows = constants.padded_rows / p.parts;
  const Binder table = at.Under("ple_embedding").Under("ngram_embedding");
  for (int part = 0; part < p.parts; ++part) {
    KV8_ASSIGN_OR_RETURN(Weight shard, table.Matrix(fmt::format("shard_{}.weight", part),
                                                    {shard_rows, p.head_dim()}));
    w.shards.push_back(shard);
  }
  KV8_ASSIGN_OR_RETURN(w.key, at.Matrix("key_proj.weight", {width, p.embed_dim}));
  KV8_ASSIGN_OR_RETURN(w.value, at.Matrix("value_proj.weight", {c.hidden, p.embed_dim}));
  KV8_ASSIGN_OR_RETURN(w.gain_key, at.Gain("norm_key.weight", width));
  KV8_ASSIGN_OR_RETURN(w.gain_query, at.Gain("norm_query.weight", width));
  KV8_ASSIGN_OR_RETURN(w.gain_conv, at.Gain("norm_conv.weight", width));
  KV8_ASSIGN_OR_RETURN(w.conv, at.Vector("conv1d.weight", {width, 1, p.conv_kernel}));
  return w;
}

Result<LayerWeights> BindLayer(const Binder& at, const LayerSpec& spec) {
  LayerWeights w{.spec = spec};
  KV8_ASSIGN_OR_RETURN(w.attention_connection,
                       BindHyperConnection(at.Under("attn_hyper_connection"), true));
  KV8_ASSIGN_OR_RETURN(w.mlp_connection,
                       BindHyperConnection(at.Under("mlp_hyper_connection"), true));
  KV8_ASSIGN_OR_RETURN(w.moe, BindMoe(at.Under("mlp")));
  if (spec.kind == LayerKind::kGdn) {
    KV8_ASSIGN_OR_RETURN(w.gdn, BindGdn(at.Under("linear_attn")));
  } else {
    KV8_ASSIGN_OR_RETURN(w.qsa, BindQsa(at.Under("self_attn"), spec.rope_theta));
  }
  if (spec.ple_layer >= 0) {
    KV8_ASSIGN_OR_RETURN(w.ple, BindPle(at.Under("ple"), spec.ple_layer));
  }
  return w;
}

Result<MtpWeights> BindMtp(const Binder& at) {
  const ModelSpec& c = at.spec();
  MtpWeights w;
  KV8_ASSIGN_OR_RETURN(w.embedding_projection,
                       at.Matrix("fc_embedding.weight", {c.hidden, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.hidden_projection, at.Matrix("fc_hidden.weight", {c.hidden, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.embedding_gain, at.Gain("pre_fc_norm_embedding.weight", c.hidden));
  KV8_ASSIGN_OR_RETURN(w.hidden_gain, at.Gain("pre_fc_norm_hidden.weight", c.stream_width()));
  KV8_ASSIGN_OR_RETURN(w.layer, BindLayer(at.Under("layers.0"), *c.draft));
  KV8_ASSIGN_OR_RETURN(w.mixer, BindHyperConnection(at.Under("hyper_connection_mixer"), false));
  return w;
}

}  // namespace

Result<Model> BindModel(const ModelSpec& spec, const TensorSource& source) {
  Model model{.spec = spec, .weights = {}};
  ModelWeights& w = model.weights;
  const Binder root(spec, source, w.vectors, "");
  const Binder text = root.Under("model");
  KV8_ASSIGN_OR_RETURN(w.embed, text.Matrix("embed_tokens.weight", {spec.vocab, spec.hidden}));
  KV8_ASSIGN_OR_RETURN(w.lm_head, root.Matrix("lm_head.weight", {spec.vocab, spec.hidden}));
  for (const LayerSpec& layer : spec.layers) {
    const Binder at = text.Under("layers").Under(std::to_string(layer.number));
    KV8_ASSIGN_OR_RETURN(LayerWeights weights, BindLayer(at, layer));
    w.layers.push_back(std::move(weights));
  }
  KV8_ASSIGN_OR_RETURN(w.mixer, BindHyperConnection(text.Under("hyper_connection_mixer"), false));
  if (spec.draft) {
    KV8_ASSIGN_OR_RETURN(w.mtp, BindMtp(root.Under("mtp")));
  }
  return model;
}

}  // namespace kv8
