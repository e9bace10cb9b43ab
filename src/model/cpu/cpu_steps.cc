#include "model/cpu/cpu_steps.h"

#include <algorithm>
#include <array>
#include <vector>

namespace kv8 {
namespace {

/// The recurrence runs in rounds: row r of every sequence that may be rolled back runs in round r,
/// so that the state between its rows can be kept; all other rows run in round 0.
std::int64_t Rounds(const Batch& batch) {
  std::int64_t rounds = 1;
  for (const SequenceRows& rows : batch.sequences) {
    if (!rows.trail.empty()) rounds = std::max(rounds, rows.row_count);
  }
  return rounds;
}

std::span<const GdnSlice> GdnSlices(Workspace& w, const Batch& batch, int gdn_layer,
                                    std::int64_t round, Phase phase) {
  std::vector<GdnSlice>& slices = w.gdn_slices;
  slices.clear();
  for (const SequenceRows& rows : batch.sequences) {
    const bool row_by_row = !rows.trail.empty();
    if (rows.phase != phase || round >= (row_by_row ? rows.row_count : 1)) continue;
    slices.push_back({rows.row_begin + round, row_by_row ? 1 : rows.row_count,
                      rows.state->Floats(StateKind::kGdnConv, gdn_layer),
                      rows.state->Floats(StateKind::kGdnState, gdn_layer)});
  }
  return slices;
}

/// Keeps the states after a round that a rollback may need.
void FillGdnTrail(const Batch& batch, int gdn_layer, std::int64_t round) {
  const auto index = static_cast<std::size_t>(round);
  for (const SequenceRows& rows : batch.sequences) {
    if (index >= rows.trail.size()) continue;
    for (const StateKind kind : {StateKind::kGdnConv, StateKind::kGdnState}) {
      std::ranges::copy(rows.state->Floats(kind, gdn_layer),
                        rows.trail[index].Floats(kind, gdn_layer).begin());
    }
  }
}

std::span<const QsaSlice> QsaSlices(const CpuContext& context, const Batch& batch, int kv_layer) {
  KvCache& cache = context.cache;
  std::vector<QsaSlice>& slices = context.workspace.qsa_slices;
  slices.clear();
  for (const SequenceRows& rows : batch.sequences) {
    slices.push_back({rows.row_begin, rows.row_count, rows.first_position,
                      cache.Kv(kv_layer, rows.pages), cache.Index(kv_layer, rows.pages),
                      rows.state->Floats(StateKind::kIndexRing, kv_layer)});
  }
  return slices;
}

/// Puts the n-gram state before the batch into the first state of the trail.
void KeepPleBefore(const SequenceRows& rows, int ple_layer) {
  if (rows.trail.empty()) return;
  std::ranges::copy(rows.state->Floats(StateKind::kPleConv, ple_layer),
                    rows.trail[0].Floats(StateKind::kPleConv, ple_layer).begin());
  std::ranges::copy(rows.state->Context(ple_layer), rows.trail[0].Context(ple_layer).begin());
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
void FillPleTrail(const Batch& batch, const SequenceRows& rows, std::int64_t stream_width,
                  int ple_layer) {
  const auto width = static_cast<std::size_t>(stream_width);
  const auto count = static_cast<std::size_t>(rows.row_count);
  for (std::size_t i = rows.trail.size(); i-- > 0;) {  // the first holds what the others need
    SequenceState& first = rows.trail[0];
    const std::span<const float> columns =
        rows.state->Floats(StateKind::kPleConv, ple_layer).last(count * width);
    Slide<float>(first.Floats(StateKind::kPleConv, ple_layer), columns.first((i + 1) * width),
                 rows.trail[i].Floats(StateKind::kPleConv, ple_layer));
    const auto ids = batch.ids.subspan(static_cast<std::size_t>(rows.row_begin), i + 1);
    Slide<TokenId>(first.Context(ple_layer), ids, rows.trail[i].Context(ple_layer));
  }
}

/// streams[t, s*H + d] += rows[t, d] for every stream s.
void AddToEveryStream(ConstMatrix rows, Matrix streams) {
  for (std::int64_t t = 0; t < rows.rows; ++t) {
    const auto add = rows.row(t);
    const auto out = streams.row(t);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += add[i % add.size()];
  }
}

}  // namespace

CpuSteps::CpuSteps(const ModelSpec& config, const CpuContext& context, const Batch& batch,
                   Matrix streams, ConstMatrix target)
    : config_(config),
      context_(context),
      w_(context.workspace),
      batch_(batch),
      streams_(streams),
      target_(target) {
  w_.Resize(batch.rows());
  for (const SequenceRows& rows : batch.sequences) {
    for (std::int64_t i = 0; i < rows.row_count; ++i) {
      w_.positions[static_cast<std::size_t>(rows.row_begin + i)] = rows.first_position + i;
    }
  }
}

CpuSteps::CpuSteps(const ModelSpec& config, const CpuContext& context, Matrix streams,
                   Matrix logits)
    : config_(config),
      context_(context),
      w_(context.workspace),
      streams_(streams),
      logits_(logits) {
  w_.Resize(streams.rows);
}

void CpuSteps::Project(ConstMatrix x, const Weight& weight, Matrix out) {
  const LinearPart part{weight, out};
  context_.ops.linear(context_.op_context, x, {&part, 1});
}

Result<void> CpuSteps::Embed(const Weight& table) {
  context_.ops.embed(context_.op_context, batch_.ids, table, config_.streams, streams_);
  return {};
}

Result<void> CpuSteps::NgramMemory(const PleWeights& weights, const LayerSpec& layer) {
  std::span<const Weight> table_rows;
  if (context_.table_rows != nullptr) {
    KV8_ASSIGN_OR_RETURN(table_rows, context_.table_rows->Rows(layer.ple_layer));
  }
  std::vector<PleSlice>& slices = w_.ple_slices;
  slices.clear();
  for (const SequenceRows& rows : batch_.sequences) {
    slices.push_back({rows.row_begin, rows.row_count,
                      rows.state->Floats(StateKind::kPleConv, layer.ple_layer),
                      rows.state->Context(layer.ple_layer)});
    KeepPleBefore(rows, layer.ple_layer);
  }
  context_.ops.ple(context_.op_context, *config_.ple, weights, batch_.ids, table_rows, slices,
                   config_.streams, config_.rms_eps, streams_);
  for (const SequenceRows& rows : batch_.sequences) {
    FillPleTrail(batch_, rows, streams_.cols, layer.ple_layer);
  }
  return {};
}

Result<void> CpuSteps::Mix(const HyperConnectionWeights& weights) {
  context_.ops.hyper_mix(context_.op_context, streams_, weights, config_.streams, config_.rms_eps,
                         w_.x, w_.inject);
  return {};
}

Result<void> CpuSteps::Gdn(const GdnLayerWeights& weights, const LayerSpec& layer) {
  const std::array parts = {LinearPart{weights.qkv, w_.qkv}, LinearPart{weights.z, w_.z},
                            LinearPart{weights.b, w_.b}, LinearPart{weights.a, w_.a}};
  context_.ops.linear(context_.op_context, w_.x, parts);
  const Matrix core = w_.core.Cols(0, w_.z.cols);
  const GdnInputs inputs{w_.qkv, w_.z, w_.b, w_.a};
  const auto run = [&](GdnFn* form, std::int64_t round, Phase phase) {
    const auto slices = GdnSlices(w_, batch_, layer.gdn_layer, round, phase);
    if (slices.empty()) return;
    form(context_.op_context, config_.gdn, weights.core, inputs, slices, config_.rms_eps, core);
  };
  run(context_.ops.gdn_prefill, 0, Phase::kPrefill);
  for (std::int64_t round = 0; round < Rounds(batch_); ++round) {
    run(context_.ops.gdn_decode, round, Phase::kDecode);
    FillGdnTrail(batch_, layer.gdn_layer, round);
  }
  Project(core, weights.out, w_.y);
  return {};
}

/// K gets its norm and RoPE, the query and the index query likewise.
Result<void> CpuSteps::ProjectAttention(const QsaLayerWeights& weights) {
  const QsaConfig& q = config_.qsa;
  const std::array parts = {LinearPart{weights.q, w_.query_gate}, LinearPart{weights.k, w_.key},
                            LinearPart{weights.v, w_.value},
                            LinearPart{weights.index_qk, w_.index_qk}};
  context_.ops.linear(context_.op_context, w_.x, parts);
  const auto norm_rope = [&](ConstMatrix x, int heads, std::int64_t stride,
                             std::span<const float> gain, Matrix out) {
    const HeadNormRope rope{gain, weights.inv_freq, config_.rms_eps};
    context_.ops.head_norm_rope(context_.op_context, x, heads, stride, rope, w_.positions, out);
  };
  norm_rope(w_.query_gate, q.query_heads, 2 * q.head_dim, weights.q_gain, w_.query);
  norm_rope(w_.key, q.kv_heads, q.head_dim, weights.k_gain, w_.key);
  norm_rope(w_.index_qk, q.index_heads, q.index_dim, weights.index_q_gain, w_.index_query);
  return {};
}

Result<void> CpuSteps::StoreKeyValue(const QsaLayerWeights& weights, const LayerSpec& layer) {
  const QsaConfig& q = config_.qsa;
  const auto slices = QsaSlices(context_, batch_, layer.kv_layer);
  SaturationCount& clipped = context_.cache.saturation()[static_cast<std::size_t>(layer.kv_layer)];
  context_.ops.kv_store(context_.op_context, w_.key, w_.value, slices, &clipped);
  const HeadNormRope rope{weights.index_k_gain, weights.inv_freq, config_.rms_eps};
  context_.ops.index_store(context_.op_context, q,
                           w_.index_qk.Cols(w_.index_query.cols, q.index_dim), rope, slices);
  return {};
}

Result<void> CpuSteps::ObserveKeyValue(const LayerSpec& layer) {
  if (context_.observer != nullptr) context_.observer->OnKeyValue(layer.number, w_.key, w_.value);
  if (context_.magnitudes.empty()) return {};
  const int heads = config_.qsa.kv_heads;
  const auto count = static_cast<std::size_t>(2 * heads);
  const std::size_t first = static_cast<std::size_t>(layer.kv_layer) * count;
  for (const SequenceRows& rows : batch_.sequences) {
    context_.ops.kv_observe(context_.op_context, heads, w_.key.Rows(rows.row_begin, rows.row_count),
                            w_.value.Rows(rows.row_begin, rows.row_count),
                            context_.magnitudes.subspan(first, count),
                            rows.max_bits.subspan(first, count));
  }
  return {};
}

Result<void> CpuSteps::Attend(const QsaLayerWeights& weights, const LayerSpec& layer) {
  const QsaConfig& q = config_.qsa;
  const auto slices = QsaSlices(context_, batch_, layer.kv_layer);
  context_.ops.select_blocks(context_.op_context, q, w_.index_query, slices, w_.selection);
  if (context_.observer != nullptr) context_.observer->OnSelection(layer.number, w_.selection);
  // Each query head is followed by its gate.
  const ConstMatrix gate = w_.query_gate.Cols(q.head_dim, w_.query_gate.cols - q.head_dim);
  const Matrix core = w_.core.Cols(0, w_.query.cols);
  context_.ops.sparse_attention(context_.op_context, q, w_.query, gate, 2 * q.head_dim, slices,
                                w_.selection, core);
  if (context_.observer != nullptr) context_.observer->OnAttention(layer.number, core);
  Project(core, weights.out, w_.y);
  return {};
}

Result<void> CpuSteps::Experts(const MoeWeights& weights) {
  context_.ops.moe(context_.op_context, config_.moe, weights, w_.x, w_.y);
  return {};
}

Result<void> CpuSteps::Combine() {
  context_.ops.hyper_combine(context_.op_context, w_.y, w_.inject, streams_);
  return {};
}

Result<void> CpuSteps::ObserveStreams(const LayerSpec& layer) {
  if (context_.observer != nullptr) context_.observer->OnStreams(layer.number, streams_);
  return {};
}

Result<void> CpuSteps::EmbedNext(const Weight& table) {
  context_.ops.embed(context_.op_context, batch_.ids, table, 1, w_.x);
  return {};
}

Result<void> CpuSteps::ProjectEmbedding(const MtpWeights& weights) {
  context_.ops.grouped_rms_norm(context_.op_context, w_.x, weights.embedding_gain, 1,
                                config_.rms_eps, w_.x);
  Project(w_.x, weights.embedding_projection, w_.draft_embedding);
  return {};
}

/// One RMS over all streams, then the same projection for each.
Result<void> CpuSteps::ProjectStreams(const MtpWeights& weights) {
  context_.ops.grouped_rms_norm(context_.op_context, target_, weights.hidden_gain, 1,
                                config_.rms_eps, w_.draft_hidden);
  const std::int64_t stream_rows = batch_.rows() * config_.streams;
  Project(ConstMatrix(w_.draft_hidden.data, stream_rows, config_.hidden), weights.hidden_projection,
          Matrix(streams_.data, stream_rows, config_.hidden));
  return {};
}

Result<void> CpuSteps::AddEmbedding() {
  AddToEveryStream(w_.draft_embedding, streams_);
  return {};
}

Result<void> CpuSteps::Head(const Weight& head) {
  Project(w_.x, head, logits_);
  return {};
}

}  // namespace kv8
