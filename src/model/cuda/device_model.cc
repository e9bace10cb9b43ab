#include "model/cuda/device_model.h"

#include <algorithm>

namespace kv8::cuda {
namespace {

/// Sizes and weights of the block.
PleArgs PleDimensions(const ModelConfig& model, const DevicePle& weights) {
  const PleConfig& config = *model.ple;
  PleArgs args{.streams = model.streams,
               .hidden = model.hidden,
               .heads = config.heads(),
               .head_dim = config.head_dim(),
               .heads_per_ngram = config.heads_per_ngram,
               .ngram_size = config.ngram_size,
               .conv_kernel = config.conv_kernel,
               .eos = weights.hash->eos,
               .eps = model.rms_eps,
               .head_sizes = weights.head_sizes,
               .offsets = weights.offsets,
               .shards = weights.shards,
               .shard_rows = weights.shard_rows,
               .table_type = weights.table_type,
               .key = weights.key,
               .value = weights.value,
               .gain_key = weights.gain_key,
               .gain_query = weights.gain_query,
               .gain_conv = weights.gain_conv,
               .conv = weights.conv};
  const std::vector<std::int64_t>& multipliers = weights.hash->multipliers;
  std::copy_n(multipliers.begin(), std::min<std::size_t>(multipliers.size(), kMaxNgram),
              args.multipliers);
  return args;
}

}  // namespace

Result<void> DevicePass::Forward() {
  KV8_RETURN_IF_ERROR(m_.ops.Embed(stream_, {.ids = m_.block.ids(),
                                             .table = m_.weights.embed,
                                             .rows = shape_.rows,
                                             .hidden = m_.config.hidden,
                                             .streams = m_.config.streams,
                                             .out = w_.streams}));
  int ple_layer = 0, gdn_layer = 0, kv_layer = 0;
  for (const DeviceLayer& layer : m_.weights.layers) {
    if (layer.ple) {
      KV8_RETURN_IF_ERROR(Settle(w_.streams));
      KV8_RETURN_IF_ERROR(Ple(*layer.ple, ple_layer++));
    }
    KV8_RETURN_IF_ERROR(layer.gdn ? Gdn(layer, gdn_layer++)
                                  : Qsa(layer, kv_layer++, m_.weights.inv_freq, w_.streams));
    KV8_RETURN_IF_ERROR(Moe(layer, w_.streams));
  }
  return Settle(w_.streams);
}

Result<void> DevicePass::Draft() {
  const DeviceDraft& draft = *m_.weights.draft;
  const std::int32_t hidden = m_.config.hidden, streams = m_.config.streams;
  KV8_RETURN_IF_ERROR(m_.ops.Embed(stream_, {.ids = m_.block.ids(),
                                             .table = m_.weights.embed,
                                             .rows = shape_.rows,
                                             .hidden = hidden,
                                             .streams = 1,
                                             .out = w_.x}));
  GroupedNormArgs norm{.x = w_.x,
                       .gain = draft.embedding_gain,
                       .out = w_.x,
                       .rows = shape_.rows,
                       .groups = 1,
                       .dim = hidden,
                       .eps = m_.config.rms_eps};
  KV8_RETURN_IF_ERROR(m_.ops.GroupedNorm(stream_, norm));
  KV8_RETURN_IF_ERROR(Project(w_.x, hidden, draft.embedding_projection, w_.draft_embedding));
  // One RMS over all streams, then the same projection for each.
  norm.x = w_.draft_input, norm.gain = draft.hidden_gain, norm.out = w_.draft_normed;
  norm.dim = streams * hidden;
  KV8_RETURN_IF_ERROR(m_.ops.GroupedNorm(stream_, norm));
  KV8_RETURN_IF_ERROR(
      m_.ops.Linear(stream_, {.x = w_.draft_normed,
                              .x_stride = hidden,
                              .rows = shape_.rows * streams,
                              .inner = hidden,
                              .count = 1,
                              .outputs = {{draft.hidden_projection, w_.draft_streams, hidden}}}));
  KV8_RETURN_IF_ERROR(Combine(w_.draft_embedding, w_.ones, w_.draft_streams));
  const int kv_layer = static_cast<int>(m_.config.QsaLayers().size());
  KV8_RETURN_IF_ERROR(Qsa(draft.layer, kv_layer, draft.inv_freq, w_.draft_streams));
  KV8_RETURN_IF_ERROR(Moe(draft.layer, w_.draft_streams));
  return Settle(w_.draft_streams);
}

Result<void> DevicePass::Logits(std::int32_t rows, bool draft) {
  KV8_RETURN_IF_ERROR(
      Mix(draft ? m_.weights.draft->mixer : m_.weights.mixer, w_.token_streams, rows));
  return m_.ops.Linear(stream_, {.x = w_.x,
                                 .x_stride = m_.config.hidden,
                                 .rows = rows,
                                 .inner = m_.config.hidden,
                                 .count = 1,
                                 .outputs = {{m_.weights.lm_head, w_.logits, m_.config.vocab}}});
}

Result<void> DevicePass::BestTokens(std::int32_t rows, bool draft) {
  KV8_RETURN_IF_ERROR(Logits(rows, draft));
  return m_.ops.Argmax(stream_, {.logits = w_.logits,
                                 .stride = m_.config.vocab,
                                 .rows = rows,
                                 .vocab = m_.config.vocab,
                                 .parts = w_.best_parts,
                                 .tickets = w_.best_tickets,
                                 .tokens = w_.best_tokens});
}

Result<void> DevicePass::ChooseTokens(std::int32_t rows) {
  KV8_RETURN_IF_ERROR(BestTokens(rows, false));
  return m_.ops.ChooseTokens(stream_, {.logits = w_.logits,
                                       .stride = m_.config.vocab,
                                       .rows = rows,
                                       .vocab = m_.config.vocab,
                                       .rules = w_.choice.rules,
                                       .weights = w_.choice.weights,
                                       .counts = w_.choice.counts,
                                       .state = w_.choice.state,
                                       .list = w_.choice.list,
                                       .tokens = w_.best_tokens});
}

Result<void> DevicePass::Mix(const DeviceHyper& weights, float* streams, std::int32_t rows) {
  const float* const y = unsettled_ ? w_.y : nullptr;
  unsettled_ = false;
  return m_.ops.HyperMix(stream_, {.y = y,
                                   .streams = streams,
                                   .gain = weights.gain,
                                   .down = weights.down,
                                   .up = weights.up,
                                   .inject_weight = weights.inject,
                                   .rows = rows,
                                   .stream_count = m_.config.streams,
                                   .hidden = m_.config.hidden,
                                   .eps = m_.config.rms_eps,
                                   .normed = w_.hyper.normed,
                                   .parts = w_.hyper.parts,
                                   .low = w_.hyper.low,
                                   .x = w_.x,
                                   .inject = w_.inject});
}

Result<void> DevicePass::Settle(float* streams) {
  if (!unsettled_) return {};
  unsettled_ = false;
  return Combine(w_.y, w_.inject, streams);
}

Result<void> DevicePass::Combine(const float* y, const float* inject, float* streams) {
  return m_.ops.HyperCombine(stream_, {.y = y,
                                       .inject = inject,
                                       .streams = streams,
                                       .rows = shape_.rows,
                                       .stream_count = m_.config.streams,
                                       .hidden = m_.config.hidden});
}

Result<void> DevicePass::Project(const float* x, std::int32_t inner, WeightArray weight,
                                 float* out) {
  return m_.ops.Linear(stream_, {.x = x,
                                 .x_stride = inner,
                                 .rows = shape_.rows,
                                 .inner = inner,
                                 .count = 1,
                                 .outputs = {{weight, out, weight.rows}}});
}

Result<void> DevicePass::Ple(const DevicePle& weights, int layer) {
  const auto at = static_cast<std::size_t>(layer);
  const StateArrays &slots = m_.state.slots(), &trails = m_.state.trails();
  PleArgs args = PleDimensions(m_.config, weights);
  args.ids = m_.block.ids();
  args.rows = m_.block.rows(shape_);
  args.slices = m_.block.slices(shape_);
  args.verified = m_.block.verified(shape_);
  args.drafts = shape_.rounds > 1 ? m_.drafts : 0;
  args.conv_state = slots.ple_conv[at], args.context = slots.ple_context[at];
  args.conv_trail = trails.ple_conv[at], args.context_trail = trails.ple_context[at];
  args.memory = w_.ple.memory;
  args.keys = w_.ple.keys;
  args.values = w_.ple.values;
  args.gated = w_.ple.gated;
  args.normed = w_.ple.normed;
  args.residual = w_.streams;
  return m_.ops.Ple(stream_, args);
}

Result<void> DevicePass::Gdn(const DeviceLayer& layer, int gdn_layer) {
  const DeviceGdn& weights = *layer.gdn;
  const GdnConfig& gdn = m_.config.gdn;
  const std::int32_t values = gdn.value_heads * gdn.value_dim;
  KV8_RETURN_IF_ERROR(Mix(layer.attention, w_.streams, shape_.rows));
  KV8_RETURN_IF_ERROR(
      m_.ops.Linear(stream_, {.x = w_.x,
                              .x_stride = m_.config.hidden,
                              .rows = shape_.rows,
                              .inner = m_.config.hidden,
                              .count = 4,
                              .outputs = {{weights.qkv, w_.gdn.qkv, gdn.conv_channels()},
                                          {weights.z, w_.gdn.z, values},
                                          {weights.b, w_.gdn.b, gdn.value_heads},
                                          {weights.a, w_.gdn.a, gdn.value_heads}}}));
  KV8_RETURN_IF_ERROR(Recur(weights, gdn_layer));
  unsettled_ = true;
  return Project(w_.gdn.core, values, weights.out, w_.y);
}

/// Prefill takes each slice as a whole; decode goes row by row where a state may have to be gone
/// back to, and keeps it.
Result<void> DevicePass::Recur(const DeviceGdn& weights, int gdn_layer) {
  const GdnConfig& gdn = m_.config.gdn;
  const auto at = static_cast<std::size_t>(gdn_layer);
  GdnArgs args{.slices = m_.block.prefill(shape_),
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
               .conv = weights.conv,
               .decay = weights.decay,
               .dt_bias = weights.dt_bias,
               .norm = weights.norm,
               .conv_state = m_.state.slots().gdn_conv[at],
               .state = m_.state.slots().gdn_state[at],
               .convolved = w_.gdn.convolved,
               .chunks = w_.gdn.chunks,
               .out = w_.gdn.core};
  if (shape_.prefill_slices > 0) KV8_RETURN_IF_ERROR(m_.ops.GdnPrefill(stream_, args));
  args.max_rows = 1;
  for (std::int32_t round = 0; round < shape_.rounds; ++round) {
    args.slices = m_.block.decode(shape_, round);
    KV8_RETURN_IF_ERROR(m_.ops.Gdn(stream_, args));
    if (round + 1 == shape_.rounds) break;
    const CopySet keep = m_.state.copies().state_to_trail.Part(2 * gdn_layer, 2);
    KV8_RETURN_IF_ERROR(m_.ops.CopyItems(stream_, {.arrays = keep.arrays,
                                                   .array_count = keep.count,
                                                   .pair_count = shape_.decode_slices,
                                                   .largest = keep.largest,
                                                   .pairs = m_.block.kept(round)}));
  }
  return {};
}

Result<void> DevicePass::Qsa(const DeviceLayer& layer, int kv_layer, const float* inv_freq,
                             float* streams) {
  const DeviceQsa& weights = *layer.qsa;
  const QsaConfig& q = m_.config.qsa;
  const std::int32_t keys = q.kv_heads * q.head_dim;
  KV8_RETURN_IF_ERROR(Mix(layer.attention, streams, shape_.rows));
  KV8_RETURN_IF_ERROR(m_.ops.Linear(
      stream_, {.x = w_.x,
                .x_stride = m_.config.hidden,
                .rows = shape_.rows,
                .inner = m_.config.hidden,
                .count = 4,
                .outputs = {{weights.q, w_.qsa.query_gate, weights.q.rows},
                            {weights.k, w_.qsa.key, keys},
                            {weights.v, w_.qsa.value, keys},
                            {weights.index_qk, w_.qsa.index_qk, weights.index_qk.rows}}}));
  KV8_RETURN_IF_ERROR(Store(weights, kv_layer, inv_freq));
  for (std::int32_t first = 0; first < shape_.decode_rows; first += kAttentionRows) {
    const std::int32_t rows = std::min(kAttentionRows, shape_.decode_rows - first);
    KV8_ASSIGN_OR_RETURN(const SparseAttentionArgs args, Select(kv_layer, first, rows));
    KV8_RETURN_IF_ERROR(m_.ops.SparseAttention(stream_, args));
  }
  for (const PromptTile& tile : m_.block.PromptTiles()) {
    KV8_ASSIGN_OR_RETURN(const SparseAttentionArgs args,
                         Select(kv_layer, tile.first_row, tile.rows));
    KV8_RETURN_IF_ERROR(
        m_.ops.PromptAttention(stream_, {.attention = args,
                                         .first_row = tile.first_row,
                                         .groups = m_.block.prompt_groups() + tile.first_group,
                                         .group_count = tile.groups}));
  }
  unsettled_ = true;
  return Project(w_.qsa.core, q.query_heads * q.head_dim, weights.out, w_.y);
}

Result<void> DevicePass::Store(const DeviceQsa& weights, int kv_layer, const float* inv_freq) {
  const QsaConfig& q = m_.config.qsa;
  return m_.ops.QsaStore(
      stream_, {.rows = m_.block.rows(shape_),
                .tables = m_.block.tables(),
                .query_gate = w_.qsa.query_gate,
                .key = w_.qsa.key,
                .value = w_.qsa.value,
                .index_qk = w_.qsa.index_qk,
                .q_gain = weights.q_gain,
                .k_gain = weights.k_gain,
                .index_q_gain = weights.index_q_gain,
                .index_k_gain = weights.index_k_gain,
                .inv_freq = inv_freq,
                .eps = m_.config.rms_eps,
                .query_heads = q.query_heads,
                .rotary_dim = q.rotary_dim,
                .index_heads = q.index_heads,
                .block_tokens = q.block_tokens,
                .kv = m_.state.Kv(kv_layer),
                .index = m_.state.Index(kv_layer),
                .index_ring = m_.state.slots().index_ring[static_cast<std::size_t>(kv_layer)],
                .query = w_.qsa.query,
                .index_query = w_.qsa.index_query,
                .saturation = m_.state.saturation(kv_layer)});
}

/// Finds what rows [first, first + rows) attend to; returns what attention of them takes.
Result<SparseAttentionArgs> DevicePass::Select(int kv_layer, std::int32_t first,
                                               std::int32_t rows) {
  const QsaConfig& q = m_.config.qsa;
  const RowsView all = m_.block.rows(shape_);
  const RowsView part{all.sequence + first, all.position + first, rows};
  const std::int64_t queries = std::int64_t{q.query_heads} * q.head_dim;
  const std::int64_t index = std::int64_t{q.index_heads} * q.index_dim;
  KV8_RETURN_IF_ERROR(
      m_.ops.SelectBlocks(stream_, {.rows = part,
                                    .tables = m_.block.tables(),
                                    .index = m_.state.Index(kv_layer),
                                    .index_heads = q.index_heads,
                                    .block_tokens = q.block_tokens,
                                    .budget_blocks = q.budget_blocks,
                                    .max_blocks = shape_.max_blocks,
                                    .index_query = w_.qsa.index_query + first * index,
                                    .scores = w_.qsa.scores,
                                    .blocks = w_.qsa.blocks,
                                    .counts = w_.qsa.counts}));
  // Each query head is followed by its gate.
  const float* const gate = w_.qsa.query_gate + first * 2 * queries + q.head_dim;
  return SparseAttentionArgs{.rows = part,
                             .tables = m_.block.tables(),
                             .kv = m_.state.Kv(kv_layer),
                             .query_heads = q.query_heads,
                             .block_tokens = q.block_tokens,
                             .budget_blocks = q.budget_blocks,
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

Result<void> DevicePass::Moe(const DeviceLayer& layer, float* streams) {
  const MoeConfig& moe = m_.config.moe;
  const DeviceMoe& weights = layer.moe;
  KV8_RETURN_IF_ERROR(Mix(layer.mlp, streams, shape_.rows));
  unsettled_ = true;
  return m_.ops.Moe(stream_, {.x = w_.x,
                              .rows = shape_.rows,
                              .hidden = m_.config.hidden,
                              .experts = moe.experts,
                              .experts_per_token = moe.experts_per_token,
                              .expert_dim = moe.expert_dim,
                              .shared_dim = moe.shared_expert_dim,
                              .router = weights.router,
                              .gate_up = weights.gate_up,
                              .down = weights.down,
                              .shared_gate_proj = weights.shared_gate_proj,
                              .shared_up_proj = weights.shared_up_proj,
                              .shared_down_proj = weights.shared_down_proj,
                              .shared_gate = weights.shared_gate,
                              .logits = w_.moe.logits,
                              .chosen = w_.moe.chosen,
                              .weights = w_.moe.weights,
                              .begins = w_.moe.begins,
                              .active = w_.moe.active,
                              .pairs = w_.moe.pairs,
                              .expert_hidden = w_.moe.expert_hidden,
                              .expert_out = w_.moe.expert_out,
                              .shared_hidden = w_.moe.shared_hidden,
                              .shared_gate_value = w_.moe.shared_gate,
                              .shared_out = w_.moe.shared_out,
                              .out = w_.y});
}

}  // namespace kv8::cuda
