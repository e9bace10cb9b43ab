#include "model/layers.h"

#include <array>
#include <vector>

namespace kv8 {
namespace {

void Mix(const Pass& pass, const HyperConnectionWeights& weights, ConstMatrix streams) {
  Workspace& w = pass.context.workspace;
  pass.ops.hyper_mix(pass.context.ops, streams, weights, pass.config.streams, pass.config.rms_eps,
                     w.x, w.inject);
}

void Combine(const Pass& pass, Matrix streams) {
  Workspace& w = pass.context.workspace;
  pass.ops.hyper_combine(pass.context.ops, w.y, w.inject, streams);
}

void Project(const Pass& pass, ConstMatrix x, const WeightView& weight, Matrix out) {
  const LinearPart part{weight, out};
  pass.ops.linear(pass.context.ops, x, {&part, 1});
}

std::vector<GdnSlice> GdnSlices(const Pass& pass, int gdn_layer, Phase phase) {
  std::vector<GdnSlice> slices;
  for (const SequenceRows& rows : pass.batch.sequences) {
    if (rows.phase != phase) continue;
    slices.push_back({rows.row_begin, rows.row_count, rows.state->GdnConv(gdn_layer),
                      rows.state->GdnState(gdn_layer)});
  }
  return slices;
}

std::vector<QsaSlice> QsaSlices(const Pass& pass, int kv_layer) {
  KvCache& cache = pass.context.cache;
  std::vector<QsaSlice> slices;
  for (const SequenceRows& rows : pass.batch.sequences) {
    slices.push_back({rows.row_begin, rows.row_count, rows.first_position,
                      cache.Kv(kv_layer, rows.blocks), cache.Index(kv_layer, rows.blocks),
                      rows.state->IndexRing(kv_layer)});
  }
  return slices;
}

/// Projections of x; K gets its norm and RoPE, the query and the index query likewise.
void ProjectQsa(const Pass& pass, const QsaLayerWeights& weights, std::span<const float> inv_freq) {
  Workspace& w = pass.context.workspace;
  const QsaConfig& q = pass.config.qsa;
  const std::array parts = {LinearPart{weights.q, w.query_gate}, LinearPart{weights.k, w.key},
                            LinearPart{weights.v, w.value},
                            LinearPart{weights.index_qk, w.index_qk}};
  pass.ops.linear(pass.context.ops, w.x, parts);
  const auto norm_rope = [&](ConstMatrix x, int heads, std::int64_t stride,
                             std::span<const float> gain, Matrix out) {
    const HeadNormRope rope{gain, inv_freq, pass.config.rms_eps};
    pass.ops.head_norm_rope(pass.context.ops, x, heads, stride, rope, w.positions, out);
  };
  norm_rope(w.query_gate, q.query_heads, 2 * q.head_dim, weights.q_gain, w.query);
  norm_rope(w.key, q.kv_heads, q.head_dim, weights.k_gain, w.key);
  norm_rope(w.index_qk, q.index_heads, q.index_dim, weights.index_q_gain, w.index_query);
}

}  // namespace

void PleBlock(const Pass& pass, const PleWeights& weights, int ple_layer, Matrix streams) {
  std::vector<PleSlice> slices;
  for (const SequenceRows& rows : pass.batch.sequences) {
    slices.push_back({rows.row_begin, rows.row_count, rows.state->PleConv(ple_layer),
                      rows.state->PleContext(ple_layer)});
  }
  pass.ops.ple(pass.context.ops, *pass.config.ple, weights, pass.batch.ids, slices,
               pass.config.streams, pass.config.rms_eps, streams);
}

void GdnBlock(const Pass& pass, const LayerWeights& weights, int gdn_layer, Matrix streams) {
  Workspace& w = pass.context.workspace;
  const GdnLayerWeights& gdn = *weights.gdn;
  Mix(pass, weights.attention_connection, streams);
  const std::array parts = {LinearPart{gdn.qkv, w.qkv}, LinearPart{gdn.z, w.z},
                            LinearPart{gdn.b, w.b}, LinearPart{gdn.a, w.a}};
  pass.ops.linear(pass.context.ops, w.x, parts);
  const Matrix core = w.core.Cols(0, w.z.cols);
  const GdnInputs inputs{w.qkv, w.z, w.b, w.a};
  const auto run = [&](GdnFn* form, Phase phase) {
    const std::vector<GdnSlice> slices = GdnSlices(pass, gdn_layer, phase);
    if (slices.empty()) return;
    form(pass.context.ops, pass.config.gdn, gdn.core, inputs, slices, pass.config.rms_eps, core);
  };
  run(pass.ops.gdn_prefill, Phase::kPrefill);
  run(pass.ops.gdn_decode, Phase::kDecode);
  Project(pass, core, gdn.out, w.y);
  Combine(pass, streams);
}

void QsaBlock(const Pass& pass, const LayerWeights& weights, QsaLayerIds ids,
              std::span<const float> inv_freq, Matrix streams) {
  Workspace& w = pass.context.workspace;
  const QsaConfig& q = pass.config.qsa;
  const QsaLayerWeights& qsa = *weights.qsa;
  Mix(pass, weights.attention_connection, streams);
  ProjectQsa(pass, qsa, inv_freq);
  ForwardObserver* observer = pass.context.observer;
  if (observer != nullptr) observer->OnKeyValue(ids.layer, w.key, w.value);

  const std::vector<QsaSlice> slices = QsaSlices(pass, ids.kv_layer);
  SaturationCount& clipped =
      pass.context.cache.saturation()[static_cast<std::size_t>(ids.kv_layer)];
  pass.ops.kv_store(pass.context.ops, w.key, w.value, slices, &clipped);
  const std::int64_t index_width = w.index_query.cols;
  const HeadNormRope index_rope{qsa.index_k_gain, inv_freq, pass.config.rms_eps};
  pass.ops.index_store(pass.context.ops, q, w.index_qk.Cols(index_width, q.index_dim), index_rope,
                       slices);
  pass.ops.select_blocks(pass.context.ops, q, w.index_query, slices, w.selection);
  if (observer != nullptr) observer->OnSelection(ids.layer, w.selection);

  // Each query head is followed by its gate.
  const ConstMatrix gate = w.query_gate.Cols(q.head_dim, w.query_gate.cols - q.head_dim);
  const Matrix core = w.core.Cols(0, w.query.cols);
  pass.ops.sparse_attention(pass.context.ops, q, w.query, gate, 2 * q.head_dim, slices, w.selection,
                            core);
  Project(pass, core, qsa.out, w.y);
  Combine(pass, streams);
}

void MoeBlock(const Pass& pass, const LayerWeights& weights, Matrix streams) {
  Workspace& w = pass.context.workspace;
  Mix(pass, weights.mlp_connection, streams);
  pass.ops.moe(pass.context.ops, pass.config.moe, weights.moe, w.x, w.y);
  Combine(pass, streams);
}

}  // namespace kv8
