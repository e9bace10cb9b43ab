#include "model/layers.h"

#include <algorithm>
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

/// The recurrence runs in rounds: row r of every sequence that may have to go back runs in round r,
/// so that the state between its rows can be kept; all other rows run in round 0.
std::int64_t Rounds(const Batch& batch) {
  std::int64_t rounds = 1;
  for (const SequenceRows& rows : batch.sequences) {
    if (!rows.trail.empty()) rounds = std::max(rounds, rows.row_count);
  }
  return rounds;
}

std::span<const GdnSlice> GdnSlices(const Pass& pass, int gdn_layer, std::int64_t round,
                                    Phase phase) {
  std::vector<GdnSlice>& slices = pass.context.workspace.gdn_slices;
  slices.clear();
  for (const SequenceRows& rows : pass.batch.sequences) {
    const bool row_by_row = !rows.trail.empty();
    if (rows.phase != phase || round >= (row_by_row ? rows.row_count : 1)) continue;
    slices.push_back({rows.row_begin + round, row_by_row ? 1 : rows.row_count,
                      rows.state->GdnConv(gdn_layer), rows.state->GdnState(gdn_layer)});
  }
  return slices;
}

/// Keeps the states that a round has left and that may have to be gone back to.
void FillGdnTrail(const Batch& batch, int gdn_layer, std::int64_t round) {
  const auto index = static_cast<std::size_t>(round);
  for (const SequenceRows& rows : batch.sequences) {
    if (index >= rows.trail.size()) continue;
    SequenceState& to = rows.trail[index];
    std::ranges::copy(rows.state->GdnConv(gdn_layer), to.GdnConv(gdn_layer).begin());
    std::ranges::copy(rows.state->GdnState(gdn_layer), to.GdnState(gdn_layer).begin());
  }
}

std::span<const QsaSlice> QsaSlices(const Pass& pass, int kv_layer) {
  KvCache& cache = pass.context.cache;
  std::vector<QsaSlice>& slices = pass.context.workspace.qsa_slices;
  slices.clear();
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

/// Puts the n-gram state before the batch into the first state of the trail.
void KeepPleBefore(const SequenceRows& rows, int ple_layer) {
  if (rows.trail.empty()) return;
  std::ranges::copy(rows.state->PleConv(ple_layer), rows.trail[0].PleConv(ple_layer).begin());
  std::ranges::copy(rows.state->PleContext(ple_layer), rows.trail[0].PleContext(ple_layer).begin());
}

/// to = the last values of `before` followed by `fresh`. `to` may be `before`.
template <class T>
void Slide(std::span<const T> before, std::span<const T> fresh, std::span<T> to) {
  const std::size_t added = std::min(fresh.size(), to.size());
  std::copy(before.end() - static_cast<std::ptrdiff_t>(to.size() - added), before.end(),
            to.begin());
  std::ranges::copy(fresh.last(added), to.end() - static_cast<std::ptrdiff_t>(added));
}

/// The n-gram state is two windows over what came last, so those between the rows follow from the
/// state before and after all rows.
void FillPleTrail(const Pass& pass, const SequenceRows& rows, int ple_layer) {
  const auto width =
      static_cast<std::size_t>(pass.config.streams) * static_cast<std::size_t>(pass.config.hidden);
  const auto count = static_cast<std::size_t>(rows.row_count);
  for (std::size_t i = rows.trail.size(); i-- > 0;) {  // the first holds what the others need
    SequenceState& first = rows.trail[0];
    const std::span<const float> columns = rows.state->PleConv(ple_layer).last(count * width);
    Slide<float>(first.PleConv(ple_layer), columns.first((i + 1) * width),
                 rows.trail[i].PleConv(ple_layer));
    const auto ids = pass.batch.ids.subspan(static_cast<std::size_t>(rows.row_begin), i + 1);
    Slide<TokenId>(first.PleContext(ple_layer), ids, rows.trail[i].PleContext(ple_layer));
  }
}

}  // namespace

void PleBlock(const Pass& pass, const PleWeights& weights, int ple_layer, Matrix streams) {
  std::vector<PleSlice>& slices = pass.context.workspace.ple_slices;
  slices.clear();
  for (const SequenceRows& rows : pass.batch.sequences) {
    slices.push_back({rows.row_begin, rows.row_count, rows.state->PleConv(ple_layer),
                      rows.state->PleContext(ple_layer)});
    KeepPleBefore(rows, ple_layer);
  }
  pass.ops.ple(pass.context.ops, *pass.config.ple, weights, pass.batch.ids, slices,
               pass.config.streams, pass.config.rms_eps, streams);
  for (const SequenceRows& rows : pass.batch.sequences) FillPleTrail(pass, rows, ple_layer);
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
  const auto run = [&](GdnFn* form, std::int64_t round, Phase phase) {
    const auto slices = GdnSlices(pass, gdn_layer, round, phase);
    if (slices.empty()) return;
    form(pass.context.ops, pass.config.gdn, gdn.core, inputs, slices, pass.config.rms_eps, core);
  };
  run(pass.ops.gdn_prefill, 0, Phase::kPrefill);
  for (std::int64_t round = 0; round < Rounds(pass.batch); ++round) {
    run(pass.ops.gdn_decode, round, Phase::kDecode);
    FillGdnTrail(pass.batch, gdn_layer, round);
  }
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

  const auto slices = QsaSlices(pass, ids.kv_layer);
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
