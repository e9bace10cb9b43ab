#include "model/cuda/device_workspace.h"

#include <algorithm>

#include "numeric/log_histogram.h"
#include "ops/cuda/argmax.h"
#include "ops/cuda/gdn.h"
#include "ops/cuda/sparse_attention.h"

namespace kv8::cuda {
namespace {

void TakePle(Arena& arena, const ModelSpec& config, std::int64_t rows, DeviceWorkspace& w) {
  if (!config.ple) return;
  const std::int64_t width = std::int64_t{config.streams} * config.hidden;
  w.ple.memory = arena.Take<float>(rows * config.ple->heads() * config.ple->head_dim());
  w.ple.keys = arena.Take<float>(rows * width);
  w.ple.values = arena.Take<float>(rows * config.hidden);
  w.ple.gated = arena.Take<float>(rows * width);
  w.ple.normed = arena.Take<float>(rows * width);
}

void TakeGdn(Arena& arena, const GdnConfig& gdn, const WorkspaceSize& size, DeviceWorkspace& w) {
  const std::int64_t rows = size.rows;
  const std::int64_t values = std::int64_t{gdn.value_heads} * gdn.value_dim;
  w.gdn.qkv = arena.Take<float>(rows * gdn.conv_channels());
  w.gdn.z = arena.Take<float>(rows * values);
  w.gdn.b = arena.Take<float>(rows * gdn.value_heads);
  w.gdn.a = arena.Take<float>(rows * gdn.value_heads);
  w.gdn.convolved = arena.Take<float>(rows * gdn.conv_channels());
  w.gdn.chunks = arena.Take<float>(GdnChunkFloats(rows, size.prefill_slices, gdn.value_heads));
  w.gdn.core = arena.Take<float>(rows * values);
}

void TakeQsa(Arena& arena, const QsaConfig& qsa, const WorkspaceSize& size, DeviceWorkspace& w) {
  const std::int64_t queries = std::int64_t{qsa.query_heads} * qsa.head_dim;
  const std::int64_t keys = std::int64_t{qsa.kv_heads} * qsa.head_dim;
  const std::int64_t index = std::int64_t{qsa.index_heads} * qsa.index_dim;
  const std::int64_t tile = std::min<std::int64_t>(size.rows, kAttentionRows);
  const SparseAttentionScratch scratch = SparseAttentionScratchBytes(
      tile, qsa.query_heads, qsa.kv_heads, qsa.head_dim, qsa.budget_selection_blocks);
  const auto floats = [](std::int64_t bytes) {
    return bytes / static_cast<std::int64_t>(sizeof(float));
  };
  w.qsa.query_gate = arena.Take<float>(size.rows * 2 * queries);
  w.qsa.query = arena.Take<float>(size.rows * queries);
  w.qsa.key = arena.Take<float>(size.rows * keys);
  w.qsa.value = arena.Take<float>(size.rows * keys);
  w.qsa.index_qk = arena.Take<float>(size.rows * (index + qsa.index_dim));
  w.qsa.index_query = arena.Take<float>(size.rows * index);
  w.qsa.core = arena.Take<float>(size.rows * queries);
  w.qsa.scores = arena.Take<float>(tile * size.max_selection_blocks);
  w.qsa.blocks = arena.Take<std::int32_t>(tile * qsa.budget_selection_blocks);
  w.qsa.counts = arena.Take<std::int32_t>(tile);
  w.qsa.partials = arena.Take<float>(floats(scratch.partials));
  w.qsa.softmax = arena.Take<float>(floats(scratch.softmax));
}

void TakeChoice(Arena& arena, std::int64_t rows, std::int64_t vocab, DeviceWorkspace& w) {
  w.best_parts = arena.Take<std::uint64_t>(rows * ArgmaxParts(vocab));
  w.best_tickets = arena.Take<std::int32_t>(rows);
  w.best_tokens = arena.Take<std::int32_t>(rows);
  w.choice.rules = arena.Take<ChoiceRule>(rows);
  w.choice.weights = arena.Take<std::uint64_t>(rows * kChoiceBins);
  w.choice.counts = arena.Take<std::uint32_t>(rows * kChoiceBins);
  w.choice.state = arena.Take<ChoiceRow>(rows);
  w.choice.list = arena.Take<std::uint64_t>(rows * kMaxListed);
}

void TakeMoe(Arena& arena, const ModelSpec& config, std::int64_t rows, DeviceWorkspace& w) {
  const MoeConfig& moe = config.moe;
  const std::int64_t pairs = rows * moe.experts_per_token;
  w.moe.logits = arena.Take<float>(rows * moe.experts);
  w.moe.chosen = arena.Take<std::int32_t>(pairs);
  w.moe.weights = arena.Take<float>(pairs);
  w.moe.cursors = arena.Take<std::int32_t>(moe.experts);
  w.moe.begins = arena.Take<std::int32_t>(moe.experts + 1);
  w.moe.tiles = arena.Take<ExpertTile>(1 + MaxExpertTiles(moe.experts, pairs, kFewRows));
  w.moe.pairs = arena.Take<std::int32_t>(pairs);
  w.moe.expert_hidden = arena.Take<float>(pairs * moe.expert_dim);
  w.moe.expert_out = arena.Take<float>(pairs * config.hidden);
  w.moe.shared_hidden = arena.Take<float>(rows * 2 * moe.shared_expert_dim);
  w.moe.shared_gate = arena.Take<float>(rows);
  w.moe.shared_out = arena.Take<float>(rows * config.hidden);
}

void TakeDraft(Arena& arena, const ModelSpec& config, std::int64_t rows, DeviceWorkspace& w) {
  const std::int64_t width = config.stream_width();
  w.draft_streams = arena.Take<float>(rows * width);
  w.draft_input = arena.Take<float>(rows * width);
  w.draft_normed = arena.Take<float>(rows * width);
  w.draft_embedding = arena.Take<float>(rows * config.hidden);
  w.ones = arena.Take<float>(rows * config.streams);
}

void TakeMagnitudes(Arena& arena, const WorkspaceSize& size, DeviceWorkspace& w) {
  if (size.observed_heads == 0) return;
  w.magnitudes.cells = arena.Take<MagnitudeCell>(std::ssize(Log2Bins::Get().cells()));
  w.magnitudes.heads = arena.Take<HeadMagnitudes>(size.observed_heads);
  w.magnitudes.max_bits = arena.Take<std::uint32_t>(size.prefill_slices * size.observed_heads);
}

/// Values of a row that enter a product, at most; the draft head's streams enter it one by one.
std::int64_t WidestInput(const ModelSpec& config) {
  const std::int64_t memory = config.ple ? config.ple->heads() * config.ple->head_dim() : 0;
  return std::max({config.stream_width(), memory,
                   std::int64_t{config.gdn.value_heads} * config.gdn.value_dim,
                   std::int64_t{config.qsa.query_heads} * config.qsa.head_dim});
}

}  // namespace

DeviceWorkspace DeviceWorkspace::Take(Arena& arena, const ModelSpec& config,
                                      const WorkspaceSize& size) {
  const std::int64_t width = std::int64_t{config.streams} * config.hidden;
  const std::int64_t mixed_rows = std::max(size.rows, size.logit_rows);
  DeviceWorkspace w{};
  w.streams = arena.Take<float>(size.rows * width);
  TakeDraft(arena, config, size.with_draft ? size.rows : 0, w);
  w.token_streams = arena.Take<float>(size.logit_rows * width);
  w.logits = arena.Take<float>(size.logit_rows * config.vocab);
  TakeChoice(arena, size.logit_rows, config.vocab, w);
  w.gathers = arena.Take<CopyArray>(4);
  TakeMagnitudes(arena, size, w);
  w.x = arena.Take<float>(mixed_rows * config.hidden);
  w.y = arena.Take<float>(size.rows * config.hidden);
  w.inject = arena.Take<float>(mixed_rows * config.streams);
  w.rounded = arena.Take<std::uint16_t>(size.activation_parts * mixed_rows * WidestInput(config));
  w.qsa.tickets = arena.Take<std::int32_t>(std::min<std::int64_t>(size.rows, kAttentionRows) *
                                           config.qsa.kv_heads);

  w.moe.counts = arena.Take<std::int32_t>(config.moe.experts);

  const std::int64_t shared = arena.bytes();
  w.hyper.normed = arena.Take<float>(mixed_rows * width);
  w.hyper.low = arena.Take<float>(mixed_rows * config.lowrank);
  w.hyper.rounded_low =
      arena.Take<std::uint16_t>(size.activation_parts * mixed_rows * config.lowrank);
  w.hyper.parts = arena.Take<float>(mixed_rows * width);
  arena.Rewind(shared);
  TakePle(arena, config, size.rows, w);
  arena.Rewind(shared);
  TakeGdn(arena, config.gdn, size, w);
  arena.Rewind(shared);
  TakeQsa(arena, config.qsa, size, w);
  arena.Rewind(shared);
  TakeMoe(arena, config, size.rows, w);
  arena.SkipToEnd();
  return w;
}

}  // namespace kv8::cuda
