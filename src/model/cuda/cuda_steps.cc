#include "model/cuda/cuda_steps.h"

#include <algorithm>
#include <initializer_list>

namespace kv8::cuda {
namespace {

/// As WeightPlacer::Experts has laid them out: all parts of an expert, then the next expert.
ExpertWeights Stack(std::initializer_list<const std::vector<Weight>*> parts) {
  Weight first = (*parts.begin())->front();
  first.rows *= static_cast<std::int64_t>(parts.size());
  return {first, first.bytes()};
}

}  // namespace

Result<void> CudaSteps::Embed(const Weight& table, std::int32_t streams, float* out) {
  return m_.ops.Embed(stream_, {.ids = m_.inputs.ids(),
                                .table = table,
                                .rows = shape_.rows,
                                .hidden = m_.config.hidden,
                                .streams = streams,
                                .out = out});
}

Result<void> CudaSteps::Embed(const Weight& table) {
  return Embed(table, m_.config.streams, streams_);
}

Result<void> CudaSteps::EmbedNext(const Weight& table) {
  return Embed(table, 1, w_.x);
}

Result<void> CudaSteps::ProjectEmbedding(const MtpWeights& weights) {
  KV8_RETURN_IF_ERROR(m_.ops.GroupedNorm(stream_, {.x = w_.x,
                                                   .gain = weights.embedding_gain.data(),
                                                   .out = w_.x,
                                                   .rows = shape_.rows,
                                                   .groups = 1,
                                                   .dim = m_.config.hidden,
                                                   .eps = m_.config.rms_eps}));
  return Project(w_.x, weights.embedding_projection, w_.draft_embedding);
}

/// One RMS over all streams, then the same projection for each.
Result<void> CudaSteps::ProjectStreams(const MtpWeights& weights) {
  const std::int32_t hidden = m_.config.hidden, streams = m_.config.streams;
  KV8_RETURN_IF_ERROR(m_.ops.GroupedNorm(stream_, {.x = w_.draft_input,
                                                   .gain = weights.hidden_gain.data(),
                                                   .out = w_.draft_normed,
                                                   .rows = shape_.rows,
                                                   .groups = 1,
                                                   .dim = streams * hidden,
                                                   .eps = m_.config.rms_eps}));
  return Multiply({.x = w_.draft_normed,
                   .rows = shape_.rows * streams,
                   .inner = hidden,
                   .count = 1,
                   .outputs = {{weights.hidden_projection, streams_, hidden}}});
}

Result<void> CudaSteps::AddEmbedding() {
  return Add(w_.draft_embedding, w_.ones);
}

Result<void> CudaSteps::Head(const Weight& head) {
  return Project(w_.x, head, w_.logits);
}

Result<void> CudaSteps::BestTokens() {
  return m_.ops.Argmax(stream_, {.logits = w_.logits,
                                 .stride = m_.config.vocab,
                                 .rows = shape_.rows,
                                 .vocab = m_.tokens,
                                 .parts = w_.best_parts,
                                 .tickets = w_.best_tickets,
                                 .tokens = w_.best_tokens});
}

Result<void> CudaSteps::ChooseTokens() {
  return m_.ops.ChooseTokens(stream_, {.logits = w_.logits,
                                       .stride = m_.config.vocab,
                                       .rows = shape_.rows,
                                       .vocab = m_.tokens,
                                       .rules = w_.choice.rules,
                                       .weights = w_.choice.weights,
                                       .counts = w_.choice.counts,
                                       .state = w_.choice.state,
                                       .list = w_.choice.list,
                                       .tokens = w_.best_tokens});
}

Result<void> CudaSteps::Mix(const HyperConnectionWeights& weights) {
  const float* const y = combine_deferred_ ? w_.y : nullptr;
  combine_deferred_ = false;
  return m_.ops.HyperMix(stream_, {.y = y,
                                   .streams = streams_,
                                   .gain = weights.gain.data(),
                                   .down = weights.down,
                                   .up = weights.up,
                                   .inject_weight = weights.inject,
                                   .rows = shape_.rows,
                                   .stream_count = m_.config.streams,
                                   .hidden = m_.config.hidden,
                                   .eps = m_.config.rms_eps,
                                   .normed = w_.hyper.normed,
                                   .parts = w_.hyper.parts,
                                   .low = w_.hyper.low,
                                   .rounded = w_.rounded,
                                   .rounded_low = w_.hyper.rounded_low,
                                   .x = w_.x,
                                   .inject = w_.inject,
                                   .activation_parts = m_.activation_parts});
}

Result<void> CudaSteps::Combine() {
  combine_deferred_ = true;
  return {};
}

Result<void> CudaSteps::Finish() {
  if (!combine_deferred_) return {};
  combine_deferred_ = false;
  return Add(w_.y, w_.inject);
}

Result<void> CudaSteps::Add(const float* y, const float* inject) {
  return m_.ops.HyperCombine(stream_, {.y = y,
                                       .inject = inject,
                                       .streams = streams_,
                                       .rows = shape_.rows,
                                       .stream_count = m_.config.streams,
                                       .hidden = m_.config.hidden});
}

Result<void> CudaSteps::Multiply(LinearArgs args) {
  args.x_stride = args.inner;
  args.rounded = w_.rounded;
  args.activation_parts = m_.activation_parts;
  return m_.ops.Linear(stream_, args);
}

Result<void> CudaSteps::Project(const float* x, const Weight& weight, float* out) {
  return Multiply({.x = x,
                   .rows = shape_.rows,
                   .inner = static_cast<std::int32_t>(weight.cols),
                   .count = 1,
                   .outputs = {{weight, out, weight.rows}}});
}

Result<void> CudaSteps::Gdn(const GdnLayerWeights& weights, const LayerSpec& layer) {
  const GdnConfig& gdn = m_.config.gdn;
  const std::int32_t values = gdn.value_heads * gdn.value_dim;
  KV8_RETURN_IF_ERROR(Multiply({.x = w_.x,
                                .rows = shape_.rows,
                                .inner = m_.config.hidden,
                                .count = 4,
                                .outputs = {{weights.qkv, w_.gdn.qkv, gdn.conv_channels()},
                                            {weights.z, w_.gdn.z, values},
                                            {weights.b, w_.gdn.b, gdn.value_heads},
                                            {weights.a, w_.gdn.a, gdn.value_heads}}}));
  KV8_RETURN_IF_ERROR(Recur(weights.core, layer.gdn_layer));
  return Project(w_.gdn.core, weights.out, w_.y);
}

/// Prefill takes each slice as a whole; decode goes row by row where a rollback may need
/// a state, and keeps it.
Result<void> CudaSteps::Recur(const GdnWeights& weights, int gdn_layer) {
  const GdnConfig& gdn = m_.config.gdn;
  GdnArgs args{.slices = m_.inputs.prefill(shape_),
               .max_rows = shape_.prefill_rows,
               .key_heads = gdn.key_heads,
               .value_heads = gdn.value_heads,
               .key_dim = gdn.key_dim,
               .value_dim = gdn.value_dim,
               .eps = m_.config.rms_eps,
               .qkv = w_.gdn.qkv,
               .z = w_.gdn.z,
               .b = w_.gdn.b,
               .a = w_.gdn.a,
               .conv = weights.conv.data(),
               .decay = weights.decay.data(),
               .dt_bias = weights.dt_bias.data(),
               .norm = weights.norm.data(),
               .conv_state = m_.state.Slots<float>(StateKind::kGdnConv, gdn_layer),
               .state = m_.state.Slots<float>(StateKind::kGdnState, gdn_layer),
               .convolved = w_.gdn.convolved,
               .chunks = w_.gdn.chunks,
               .out = w_.gdn.core};
  if (shape_.prefill_slices > 0) KV8_RETURN_IF_ERROR(m_.ops.GdnPrefill(stream_, args));
  args.max_rows = 1;
  for (std::int32_t round = 0; round < shape_.rounds; ++round) {
    args.slices = m_.inputs.decode(shape_, round);
    KV8_RETURN_IF_ERROR(m_.ops.Gdn(stream_, args));
    if (round + 1 == shape_.rounds) break;
    const CopySet& keep = m_.state.copies().gdn_to_trail[static_cast<std::size_t>(gdn_layer)];
    KV8_RETURN_IF_ERROR(m_.ops.CopyItems(stream_, {.arrays = keep.arrays,
                                                   .array_count = keep.count,
                                                   .pair_count = shape_.decode_slices,
                                                   .largest = keep.largest,
                                                   .pairs = m_.inputs.kept(round)}));
  }
  return {};
}

Result<void> CudaSteps::ProjectAttention(const QsaLayerWeights& weights) {
  return Multiply({.x = w_.x,
                   .rows = shape_.rows,
                   .inner = m_.config.hidden,
                   .count = 4,
                   .outputs = {{weights.q, w_.qsa.query_gate, weights.q.rows},
                               {weights.k, w_.qsa.key, weights.k.rows},
                               {weights.v, w_.qsa.value, weights.v.rows},
                               {weights.index_qk, w_.qsa.index_qk, weights.index_qk.rows}}});
}

/// Norms and RoPE of all four too.
Result<void> CudaSteps::StoreKeyValue(const QsaLayerWeights& weights, const LayerSpec& layer) {
  const int kv_layer = layer.kv_layer;
  const QsaConfig& q = m_.config.qsa;
  return m_.ops.QsaStore(stream_,
                         {.rows = m_.inputs.rows(shape_),
                          .tables = m_.inputs.tables(),
                          .query_gate = w_.qsa.query_gate,
                          .key = w_.qsa.key,
                          .value = w_.qsa.value,
                          .index_qk = w_.qsa.index_qk,
                          .q_gain = weights.q_gain.data(),
                          .k_gain = weights.k_gain.data(),
                          .index_q_gain = weights.index_q_gain.data(),
                          .index_k_gain = weights.index_k_gain.data(),
                          .inv_freq = weights.inv_freq.data(),
                          .eps = m_.config.rms_eps,
                          .query_heads = q.query_heads,
                          .rotary_dim = q.rotary_dim,
                          .index_heads = q.index_heads,
                          .selection_block_tokens = q.selection_block_tokens,
                          .kv = m_.state.Kv(kv_layer),
                          .index = m_.state.Index(kv_layer),
                          .index_ring = m_.state.Slots<float>(StateKind::kIndexRing, kv_layer),
                          .key_out = w_.magnitudes.heads != nullptr ? w_.qsa.key : nullptr,
                          .query = w_.qsa.query,
                          .index_query = w_.qsa.index_query,
                          .saturation = m_.state.saturation(kv_layer)});
}

Result<void> CudaSteps::ObserveKeyValue(const LayerSpec& layer) {
  if (w_.magnitudes.heads == nullptr) return {};
  const QsaConfig& q = m_.config.qsa;
  const std::int64_t first_head = std::int64_t{layer.kv_layer} * 2 * q.kv_heads;
  return m_.ops.KvObserve(stream_, {.rows = m_.inputs.rows(shape_),
                                    .key = w_.qsa.key,
                                    .value = w_.qsa.value,
                                    .heads = q.kv_heads,
                                    .dim = q.head_dim,
                                    .cells = w_.magnitudes.cells,
                                    .out = w_.magnitudes.heads + first_head,
                                    .max_bits = w_.magnitudes.max_bits + first_head,
                                    .max_stride = m_.observed_heads});
}

Result<void> CudaSteps::Attend(const QsaLayerWeights& weights, const LayerSpec& layer) {
  for (std::int32_t first = 0; first < shape_.decode_rows; first += kAttentionRows) {
    const std::int32_t rows = std::min(kAttentionRows, shape_.decode_rows - first);
    KV8_ASSIGN_OR_RETURN(const SparseAttentionArgs args, Select(layer.kv_layer, first, rows));
    KV8_RETURN_IF_ERROR(m_.ops.SparseAttention(stream_, args));
  }
  for (const PromptTile& tile : m_.inputs.PromptTiles()) {
    KV8_ASSIGN_OR_RETURN(const SparseAttentionArgs args,
                         Select(layer.kv_layer, tile.first_row, tile.rows));
    KV8_RETURN_IF_ERROR(
        m_.ops.PromptAttention(stream_, {.attention = args,
                                         .first_row = tile.first_row,
                                         .groups = m_.inputs.prompt_groups() + tile.first_group,
                                         .group_count = tile.groups}));
  }
  return Project(w_.qsa.core, weights.out, w_.y);
}

/// Finds what rows [first, first + rows) attend to; returns what attention of them takes.
Result<SparseAttentionArgs> CudaSteps::Select(int kv_layer, std::int32_t first, std::int32_t rows) {
  const QsaConfig& q = m_.config.qsa;
  const RowsView all = m_.inputs.rows(shape_);
  const RowsView part{all.sequence + first, all.position + first, rows};
  const std::int64_t queries = std::int64_t{q.query_heads} * q.head_dim;
  const std::int64_t index = std::int64_t{q.index_heads} * q.index_dim;
  KV8_RETURN_IF_ERROR(
      m_.ops.SelectBlocks(stream_, {.rows = part,
                                    .tables = m_.inputs.tables(),
                                    .index = m_.state.Index(kv_layer),
                                    .index_heads = q.index_heads,
                                    .selection_block_tokens = q.selection_block_tokens,
                                    .budget_selection_blocks = q.budget_selection_blocks,
                                    .max_selection_blocks = shape_.max_selection_blocks,
                                    .index_query = w_.qsa.index_query + first * index,
                                    .scores = w_.qsa.scores,
                                    .blocks = w_.qsa.blocks,
                                    .counts = w_.qsa.counts}));
  // Each query head is followed by its gate.
  const float* const gate = w_.qsa.query_gate + first * 2 * queries + q.head_dim;
  return SparseAttentionArgs{.rows = part,
                             .tables = m_.inputs.tables(),
                             .kv = m_.state.Kv(kv_layer),
                             .query_heads = q.query_heads,
                             .selection_block_tokens = q.selection_block_tokens,
                             .budget_selection_blocks = q.budget_selection_blocks,
                             .query = w_.qsa.query + first * queries,
                             .gate = gate,
                             .gate_stride = 2 * queries,
                             .gate_head_stride = 2 * q.head_dim,
                             .blocks = w_.qsa.blocks,
                             .counts = w_.qsa.counts,
                             .partials = w_.qsa.partials,
                             .softmax = w_.qsa.softmax,
                             .tickets = w_.qsa.tickets,
                             .out = w_.qsa.core + first * queries};
}

Result<void> CudaSteps::Experts(const MoeWeights& weights) {
  const MoeConfig& moe = m_.config.moe;
  return m_.ops.Moe(stream_, {.x = w_.x,
                              .rows = shape_.rows,
                              .hidden = m_.config.hidden,
                              .experts = moe.experts,
                              .experts_per_token = moe.experts_per_token,
                              .expert_dim = moe.expert_dim,
                              .shared_dim = moe.shared_expert_dim,
                              .router = weights.router,
                              .gate_up = Stack({&weights.gate, &weights.up}),
                              .down = Stack({&weights.down}),
                              .shared_gate_proj = weights.shared_gate_proj,
                              .shared_up_proj = weights.shared_up_proj,
                              .shared_down_proj = weights.shared_down_proj,
                              .shared_gate = weights.shared_gate,
                              .logits = w_.moe.logits,
                              .chosen = w_.moe.chosen,
                              .weights = w_.moe.weights,
                              .counts = w_.moe.counts,
                              .cursors = w_.moe.cursors,
                              .begins = w_.moe.begins,
                              .tiles = w_.moe.tiles,
                              .pairs = w_.moe.pairs,
                              .rounded = w_.rounded,
                              .expert_hidden = w_.moe.expert_hidden,
                              .expert_out = w_.moe.expert_out,
                              .shared_hidden = w_.moe.shared_hidden,
                              .shared_gate_value = w_.moe.shared_gate,
                              .shared_out = w_.moe.shared_out,
                              .out = w_.y,
                              .activation_parts = m_.activation_parts});
}

}  // namespace kv8::cuda
