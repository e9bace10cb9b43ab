#include "family/bind_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>

#include "family/matrix_part.h"
#include "family/ple_constants.h"
#include "tensor/rope_frequencies.h"

namespace kv8 {
namespace {

using Shape = std::initializer_list<std::int64_t>;

/// Whether kernels can take both for experts of one layer.
bool SameForm(const Weight& a, const Weight& b) {
  return a.format == b.format && a.group == b.group && a.group_rows == b.group_rows &&
         a.scale_format == b.scale_format &&
         (a.zero_points == nullptr) == (b.zero_points == nullptr);
}

/// Reads a rank's part of the tensors below one name prefix. Shapes are those of the checkpoint.
class Binder {
 public:
  /// What has to be kept is kept in `into`, whose own address must stay.
  Binder(const ModelSpec& spec, const Shard& shard, const TensorSource& source, ModelWeights& into,
         std::string prefix)
      : spec_(spec), shard_(shard), source_(source), into_(into), prefix_(std::move(prefix)) {}

  Binder Under(std::string_view part) const {
    return Binder(spec_, shard_, source_, into_, fmt::format("{}{}.", prefix_, part));
  }
  /// Of the whole model.
  const ModelSpec& spec() const { return spec_; }
  const Shard& shard() const { return shard_; }

  /// A matrix [rows,cols], or a part of it; a stack [e,rows,cols] counts as [e*rows,cols].
  Result<Weight> Matrix(std::string_view name, Shape shape, const MatrixPart& part = {}) const {
    const std::string full = NameOf(name);
    KV8_ASSIGN_OR_RETURN(const Weight whole,
                         source_.Matrix(full, {shape.begin(), shape.size()}, into_.copies));
    return TakePart(whole, part, full, into_.copies);
  }
  std::string NameOf(std::string_view name) const { return fmt::format("{}{}", prefix_, name); }
  bool Has(std::string_view name) const { return source_.Has(NameOf(name)); }

  /// The rank's experts, each [rows,cols], all stored alike.
  Result<std::vector<Weight>> Experts(std::string_view projection, Shape shape) const {
    std::vector<Weight> experts;
    const Range range = shard_.experts;
    for (std::int64_t e = range.begin; e < range.end(); ++e) {
      const std::string name = fmt::format("experts.{}.{}.weight", e, projection);
      KV8_ASSIGN_OR_RETURN(const Weight expert, Matrix(name, shape));
      if (!experts.empty() && !SameForm(expert, experts.front())) {
        return Error{Code::kMismatch,
                     fmt::format("is {} in groups of {}, expert {}'s {} in groups of {}",
                                 Name(expert.format), expert.group, range.begin,
                                 Name(experts.front().format), experts.front().group),
                     NameOf(name),
                     "use a checkpoint whose experts are quantised alike in each layer"};
      }
      experts.push_back(expert);
    }
    return experts;
  }
  /// The rank's experts of a stack [experts,rows,cols], `rows` of each.
  Result<std::vector<Weight>> Experts(std::string_view name, Shape shape, const Range& rows) const {
    KV8_ASSIGN_OR_RETURN(const Weight stack, Matrix(name, shape));
    const std::vector<Weight> all = ExpertsOf(stack, spec_.moe.experts, rows.begin, rows.count);
    const auto begin = all.begin() + shard_.experts.begin;
    return std::vector<Weight>(begin, begin + shard_.experts.count);
  }

  /// A small tensor as finite FP32 values, each changed by `map`; of `rows` alone unless empty.
  template <class Map = std::identity>
  Result<std::span<const float>> Vector(std::string_view name, Shape shape, Map map = {},
                                        const std::vector<Range>& rows = {}) const {
    KV8_ASSIGN_OR_RETURN(std::vector<float> values,
                         source_.Vector(NameOf(name), {shape.begin(), shape.size()}));
    if (!rows.empty()) values = RowsOf(values, std::ssize(values) / *shape.begin(), rows);
    std::ranges::transform(values, values.begin(), map);
    return Keep(std::move(values));
  }

  /// Centered norms multiply by 1 + w; the sum is kept in FP32.
  Result<std::span<const float>> Gain(std::string_view name, std::int64_t size) const {
    return Vector(name, {size}, [](float w) { return 1.0f + w; });
  }

  std::span<const float> Keep(std::vector<float> values) const {
    return into_.vectors.emplace_back(std::move(values));
  }

 private:
  static std::vector<float> RowsOf(const std::vector<float>& values, std::int64_t width,
                                   const std::vector<Range>& rows) {
    std::vector<float> part;
    for (const Range& range : rows) {
      const auto begin = values.begin() + range.begin * width;
      part.insert(part.end(), begin, begin + range.count * width);
    }
    return part;
  }

  const ModelSpec& spec_;
  const Shard& shard_;
  const TensorSource& source_;
  ModelWeights& into_;
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
  const std::int64_t keys = std::int64_t{g.key_heads} * g.key_dim;
  const std::int64_t values = std::int64_t{g.value_heads} * g.value_dim;
  const Range key_heads = at.shard().key_heads, value_heads = at.shard().value_heads;
  const Range value_rows = value_heads.Times(g.value_dim);
  const std::vector<Range> qkv{key_heads.Times(g.key_dim), key_heads.Times(g.key_dim, keys),
                               value_heads.Times(g.value_dim, 2 * keys)};
  GdnLayerWeights w;
  KV8_ASSIGN_OR_RETURN(w.qkv, at.Matrix("in_proj_qkv.weight", {channels, hidden}, {.rows = qkv}));
  KV8_ASSIGN_OR_RETURN(w.z,
                       at.Matrix("in_proj_z.weight", {values, hidden}, {.rows = {value_rows}}));
  KV8_ASSIGN_OR_RETURN(
      w.b, at.Matrix("in_proj_b.weight", {g.value_heads, hidden}, {.rows = {value_heads}}));
  KV8_ASSIGN_OR_RETURN(
      w.a, at.Matrix("in_proj_a.weight", {g.value_heads, hidden}, {.rows = {value_heads}}));
  KV8_ASSIGN_OR_RETURN(w.out,
                       at.Matrix("out_proj.weight", {hidden, values}, {.columns = value_rows}));
  KV8_ASSIGN_OR_RETURN(
      w.core.conv, at.Vector("conv1d.weight", {channels, 1, g.conv_kernel}, std::identity(), qkv));
  KV8_ASSIGN_OR_RETURN(
      w.core.decay,
      at.Vector("A_log", {g.value_heads}, [](float a) { return -std::exp(a); }, {value_heads}));
  KV8_ASSIGN_OR_RETURN(w.core.dt_bias,
                       at.Vector("dt_bias", {g.value_heads}, std::identity(), {value_heads}));
  KV8_ASSIGN_OR_RETURN(w.core.norm, at.Vector("norm.weight", {g.value_dim}));
  return w;
}

Result<QsaLayerWeights> BindQsa(const Binder& at, double rope_theta) {
  const std::int64_t hidden = at.spec().hidden;
  const QsaConfig& q = at.spec().qsa;
  const std::int64_t query = std::int64_t{q.query_heads} * q.head_dim;
  const std::int64_t kv = std::int64_t{q.kv_heads} * q.head_dim;
  const Range query_rows = at.shard().query_heads.Times(q.head_dim);
  const Range kv_rows = at.shard().kv_heads.Times(q.head_dim);
  QsaLayerWeights w;
  KV8_ASSIGN_OR_RETURN(
      w.q, at.Matrix("q_proj.weight", {2 * query, hidden}, {.rows = {query_rows.Times(2)}}));
  KV8_ASSIGN_OR_RETURN(w.k, at.Matrix("k_proj.weight", {kv, hidden}, {.rows = {kv_rows}}));
  KV8_ASSIGN_OR_RETURN(w.v, at.Matrix("v_proj.weight", {kv, hidden}, {.rows = {kv_rows}}));
  KV8_ASSIGN_OR_RETURN(w.out, at.Matrix("o_proj.weight", {hidden, query}, {.columns = query_rows}));
  KV8_ASSIGN_OR_RETURN(w.q_gain, at.Gain("q_norm.weight", q.head_dim));
  KV8_ASSIGN_OR_RETURN(w.k_gain, at.Gain("k_norm.weight", q.head_dim));
  const std::int64_t index_rows = static_cast<std::int64_t>(q.index_heads + 1) * q.index_dim;
  KV8_ASSIGN_OR_RETURN(w.index_qk, at.Matrix("indexer.index_qk_proj.weight", {index_rows, hidden}));
  KV8_ASSIGN_OR_RETURN(w.index_q_gain, at.Gain("indexer.q_layernorm.weight", q.index_dim));
  KV8_ASSIGN_OR_RETURN(w.index_k_gain, at.Gain("indexer.k_layernorm.weight", q.index_dim));
  w.inv_freq = at.Keep(RopeFrequencies(rope_theta, q.rotary_dim));
  return w;
}

/// Gate and up read the same input in one pass of the kernels.
Result<void> CheckGateAndUp(const Binder& at, const MoeWeights& w) {
  if (SameForm(w.gate.front(), w.up.front())) return {};
  return Error{
      Code::kMismatch,
      fmt::format("is {} in groups of {}, up_proj {} in groups of {}", Name(w.gate.front().format),
                  w.gate.front().group, Name(w.up.front().format), w.up.front().group),
      at.NameOf(fmt::format("experts.{}.gate_proj.weight", at.shard().experts.begin)),
      "use a checkpoint whose experts are quantised alike in each layer"};
}

/// Gate, up and down of each expert: in two stacks, or each a matrix of its own.
Result<void> BindExperts(const Binder& at, MoeWeights& w) {
  const std::int64_t hidden = at.spec().hidden;
  const MoeConfig& m = at.spec().moe;
  const std::string_view gate_up = "experts.gate_up_proj";
  const std::int64_t rows = 2 * m.expert_dim;
  if (!at.Has(gate_up)) {
    KV8_ASSIGN_OR_RETURN(w.gate, at.Experts("gate_proj", {m.expert_dim, hidden}));
    KV8_ASSIGN_OR_RETURN(w.up, at.Experts("up_proj", {m.expert_dim, hidden}));
    KV8_ASSIGN_OR_RETURN(w.down, at.Experts("down_proj", {hidden, m.expert_dim}));
    return CheckGateAndUp(at, w);
  }
  for (const char* leaf : {"weight", "weight_packed", "qweight"}) {
    const std::string expert = fmt::format("experts.0.gate_proj.{}", leaf);
    if (!at.Has(expert)) continue;
    return Error{Code::kMismatch, fmt::format("is the same matrix as a part of {}", gate_up),
                 at.NameOf(expert), "remove one of the two from the index"};
  }
  KV8_ASSIGN_OR_RETURN(
      w.gate, at.Experts(gate_up, {m.experts, rows, hidden}, {.begin = 0, .count = m.expert_dim}));
  KV8_ASSIGN_OR_RETURN(w.up, at.Experts(gate_up, {m.experts, rows, hidden},
                                        {.begin = m.expert_dim, .count = m.expert_dim}));
  KV8_ASSIGN_OR_RETURN(w.down, at.Experts("experts.down_proj", {m.experts, hidden, m.expert_dim},
                                          {.begin = 0, .count = hidden}));
  return {};
}

Result<MoeWeights> BindMoe(const Binder& at) {
  const std::int64_t hidden = at.spec().hidden;
  const MoeConfig& m = at.spec().moe;
  const Range width = at.shard().shared_expert;
  MoeWeights w;
  KV8_ASSIGN_OR_RETURN(w.router, at.Matrix("gate.weight", {m.experts, hidden}));
  KV8_RETURN_IF_ERROR(BindExperts(at, w));
  KV8_ASSIGN_OR_RETURN(w.shared_gate_proj,
                       at.Matrix("shared_expert.gate_proj.weight", {m.shared_expert_dim, hidden},
                                 {.rows = {width}}));
  KV8_ASSIGN_OR_RETURN(
      w.shared_up_proj,
      at.Matrix("shared_expert.up_proj.weight", {m.shared_expert_dim, hidden}, {.rows = {width}}));
  KV8_ASSIGN_OR_RETURN(w.shared_down_proj,
                       at.Matrix("shared_expert.down_proj.weight", {hidden, m.shared_expert_dim},
                                 {.columns = width}));
  KV8_ASSIGN_OR_RETURN(w.shared_gate, at.Matrix("shared_expert_gate.weight", {1, hidden}));
  return w;
}

Result<PleWeights> BindPle(const Binder& at, int ple_index) {
  const ModelSpec& c = at.spec();
  const PleConfig& p = *c.ple;
  const std::int64_t width = c.stream_width();
  PleWeights w;
  // Derived from config.json; the checkpoint reader has compared them with the stored ones.
  const PleConstants constants = DerivePleConstants(p, c.vocab, ple_index);
  w.hash = constants.hash;
  w.hash.eos = *c.eos;
  const std::int64_t shard_rows = constants.padded_rows / p.parts;
  const Binder table = at.Under("ple_embedding").Under("ngram_embedding");
  const Range parts = at.shard().table_parts;
  for (std::int64_t part = parts.begin; part < parts.end(); ++part) {
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

/// `spec` is the layer's as the rank sees it, `ple_layer` its place in the whole model.
Result<LayerWeights> BindLayer(const Binder& at, const LayerSpec& spec, int ple_layer) {
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
  if (ple_layer >= 0) {
    KV8_ASSIGN_OR_RETURN(w.ple, BindPle(at.Under("ple"), ple_layer));
  }
  return w;
}

Result<MtpWeights> BindMtp(const Binder& at, const LayerSpec& draft) {
  const ModelSpec& c = at.spec();
  MtpWeights w;
  KV8_ASSIGN_OR_RETURN(w.embedding_projection,
                       at.Matrix("fc_embedding.weight", {c.hidden, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.hidden_projection, at.Matrix("fc_hidden.weight", {c.hidden, c.hidden}));
  KV8_ASSIGN_OR_RETURN(w.embedding_gain, at.Gain("pre_fc_norm_embedding.weight", c.hidden));
  KV8_ASSIGN_OR_RETURN(w.hidden_gain, at.Gain("pre_fc_norm_hidden.weight", c.stream_width()));
  KV8_ASSIGN_OR_RETURN(w.layer, BindLayer(at.Under("layers.0"), draft, draft.ple_layer));
  KV8_ASSIGN_OR_RETURN(w.mixer, BindHyperConnection(at.Under("hyper_connection_mixer"), false));
  return w;
}

}  // namespace

Result<Model> BindModel(const ModelSpec& spec, const TensorSource& source, const Shard& shard) {
  Model model{.spec = SpecOf(spec, shard), .weights = {}};
  const ModelSpec& own = model.spec;
  ModelWeights& w = model.weights;
  const Binder root(spec, shard, source, w, "");
  const Binder text = root.Under("model");
  const MatrixPart vocab{.rows = {shard.vocab}};
  if (shard.first || own.draft) {
    KV8_ASSIGN_OR_RETURN(w.embed,
                         text.Matrix("embed_tokens.weight", {spec.vocab, spec.hidden}, vocab));
  }
  for (const LayerSpec& layer : own.layers) {
    const Binder at = text.Under("layers").Under(std::to_string(layer.number));
    const int ple_layer = spec.layers[static_cast<std::size_t>(layer.number)].ple_layer;
    KV8_ASSIGN_OR_RETURN(LayerWeights weights, BindLayer(at, layer, ple_layer));
    w.layers.push_back(std::move(weights));
  }
  if (!shard.last) return model;
  KV8_ASSIGN_OR_RETURN(w.lm_head, root.Matrix("lm_head.weight", {spec.vocab, spec.hidden}, vocab));
  KV8_ASSIGN_OR_RETURN(w.mixer, BindHyperConnection(text.Under("hyper_connection_mixer"), false));
  if (own.draft) {
    KV8_ASSIGN_OR_RETURN(w.mtp, BindMtp(root.Under("mtp"), *own.draft));
  }
  return model;
}

Result<Model> BindModel(const ModelSpec& spec, const TensorSource& source) {
  return BindModel(spec, source, WholeModel(spec));
}

}  // namespace kv8
