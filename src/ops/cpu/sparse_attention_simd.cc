// Sparse attention: one task per row and K/V head, whose query heads share every decoded K and V.
// Design and figures: docs/kernels/sparse_attention.md.
#include "ops/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/sparse_attention_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#ifndef KV8_OPS_CPU_SPARSE_ATTENTION_TASK_H_
#define KV8_OPS_CPU_SPARSE_ATTENTION_TASK_H_
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

namespace kv8::simd {

/// One row and one K/V head.
struct AttentionTask {
  const KvPages* pages;
  std::int64_t kv_head;
  std::int64_t heads;                   // query heads of this K/V head
  std::int64_t selection_block_tokens;  // tokens of a selection block
  std::span<const std::int32_t> blocks;
  std::int64_t position;
  const float* q;     // [heads,head_dim], contiguous
  const float* gate;  // head h at h * gate_head_stride
  std::int64_t gate_head_stride;
  float* out;  // [heads,head_dim], contiguous
  Arena scratch;
  const AttentionTask* next = nullptr;  // what the thread does after it

  std::int64_t head_dim() const { return pages->layout.head_dim; }
  std::int64_t tail_block() const { return (position + 1) / selection_block_tokens; }
  std::int64_t tail_tokens() const { return (position + 1) % selection_block_tokens; }
  std::int64_t tokens() const {
    return static_cast<std::int64_t>(blocks.size()) * selection_block_tokens + tail_tokens();
  }
};

}  // namespace kv8::simd
#endif  // KV8_OPS_CPU_SPARSE_ATTENTION_TASK_H_

#include "ops/cpu/attention_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {
namespace {

/// Where one side of the first `count` tokens lies. Repeats the last to fill up; without any, what
/// stands before `at`.
void LocateTokens(const AttentionTask& task, KvSide side, std::int64_t count,
                  const std::byte** at) {
  const std::int64_t bytes = task.pages->layout.token_bytes();
  const std::byte** const end = at + count;
  const auto locate = [&](std::int64_t block, std::int64_t tokens) {
    const std::byte* const from =
        task.pages->At(side, task.kv_head, block * task.selection_block_tokens);
    const std::int64_t taken = std::min<std::int64_t>(tokens, end - at);
    for (std::int64_t i = 0; i < taken; ++i) *at++ = from + i * bytes;
  };
  for (const std::int32_t block : task.blocks) {
    if (at == end) return;
    locate(block, task.selection_block_tokens);
  }
  if (task.tail_tokens() > 0) locate(task.tail_block(), task.tail_tokens());
  std::fill(at, end, at[-1]);
}

AttentionBuffers TakeBuffers(Arena& arena, std::int64_t heads, std::int64_t head_dim,
                             std::int64_t tokens) {
  AttentionBuffers b;
  b.dim = RoundUp(head_dim, kRowAlign);
  b.stride = RoundUp(tokens, kRowAlign);
  b.q = arena.Take<float>(2 * heads * b.dim);
  b.sum = b.q + heads * b.dim;
  b.tile = arena.Take<float>(kTileTokens * b.dim);
  b.scores = arena.Take<float>(heads * b.stride);
  b.key = arena.Take<const std::byte*>(2 * b.stride + kPrefetchTokens);
  b.value = b.key + b.stride;
  b.next = b.value + b.stride;
  b.row = arena.Take<const std::byte*>(kTileTokens);
  return b;
}

AttentionBuffers MakeBuffers(const AttentionTask& task) {
  Arena scratch = task.scratch;
  const AttentionBuffers b = TakeBuffers(scratch, task.heads, task.head_dim(), task.tokens());
  std::fill_n(b.q, 2 * task.heads * b.dim, 0.0f);
  for (std::int64_t h = 0; h < task.heads; ++h) {
    std::copy_n(task.q + h * task.head_dim(), task.head_dim(), b.q + h * b.dim);
  }
  LocateTokens(task, KvSide::kKey, b.stride, b.key);
  LocateTokens(task, KvSide::kValue, b.stride, b.value);
  if (task.next != nullptr) {
    LocateTokens(*task.next, KvSide::kKey, kPrefetchTokens, b.next);
  } else {
    std::fill_n(b.next, kPrefetchTokens, b.next[-1]);
  }
  return b;
}

/// Asks for the bytes of a token's vector, which lies anywhere in the pool.
HWY_INLINE void PrefetchVector(const std::byte* at, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t i = 0; i < bytes; i += kLine) hwy::Prefetch(at + i);
}

/// Decodes the vectors at [0, count) into the tile, zeros in the columns after head_dim, and
/// returns where its rows lie, padded like AttentionBuffers::key.
template <KvDType kType>
const std::byte* const* DecodeTile(const std::byte* const* at, std::int64_t count,
                                   std::int64_t head_dim, const AttentionBuffers& b) {
  for (std::int64_t i = 0; i < count; ++i) {
    float* const to = b.tile + i * b.dim;
    DecodeRun<kType>(at[i], head_dim, to);
    std::fill(to + head_dim, to + b.dim, 0.0f);
    b.row[i] = reinterpret_cast<const std::byte*>(to);
  }
  std::fill(b.row + count, b.row + RoundUp(count, kScoreTokens), b.row[count - 1]);
  return b.row;
}

/// Scores of the tokens [first, first + count), whose K lie at `keys`.
template <KvDType kType>
void ScoreHeads(const AttentionTask& task, const AttentionBuffers& b, std::int64_t dim,
                std::int64_t first, std::int64_t count, const std::byte* const* keys) {
  for (std::int64_t j = 0; j < count; j += kScoreTokens) {
    for (std::int64_t i = 0; i < kScoreTokens; ++i) {
      PrefetchVector(b.key[first + j + i + kPrefetchTokens], task.pages->layout.token_bytes());
    }
    float* const scores = b.scores + first + j;
    ForHeads(task.heads, [&](auto some, std::int64_t h) HWY_ATTR {
      ScoreTokens<some, kType>(b.q + h * b.dim, b, dim, keys + j, scores + h * b.stride);
    });
  }
}

template <KvDType kType>
void AddHeads(const AttentionTask& task, const AttentionBuffers& b, std::int64_t dim,
              std::int64_t first, std::int64_t count, const std::byte* const* values) {
  const float* const p = b.scores + first;
  const ValueRun run{values, count, b.value + first + kPrefetchTokens,
                     SizeOf(task.pages->layout.dtype)};
  ForHeads(task.heads, [&](auto some, std::int64_t h) HWY_ATTR {
    AddColumns<some, kType>(p + h * b.stride, run, dim, b, b.sum + h * b.dim);
  });
}

/// kTiled: vectors are decoded to the tile first, not used where they lie.
template <KvDType kType, bool kTiled>
void Attend(const AttentionTask& task) {
  constexpr KvDType kUsed = kTiled ? KvDType::kFp32 : kType;
  const std::int64_t tokens = task.tokens();
  const AttentionBuffers b = MakeBuffers(task);
  const std::int64_t dim = kTiled ? b.dim : task.head_dim();
  const auto for_each_tile = [&](const std::byte* const* at, const auto& body) {
    for (std::int64_t first = 0; first < tokens; first += kTileTokens) {
      const std::int64_t count = std::min(kTileTokens, tokens - first);
      const std::byte* const* vectors = at + first;
      if constexpr (kTiled) vectors = DecodeTile<kType>(vectors, count, task.head_dim(), b);
      body(first, count, vectors);
    }
  };
  for (std::int64_t i = 0; i < std::min(kPrefetchTokens, tokens); ++i) {
    PrefetchVector(b.key[i], task.pages->layout.token_bytes());
  }
  for_each_tile(b.key, [&](std::int64_t first, std::int64_t count, const auto* keys) {
    ScoreHeads<kUsed>(task, b, dim, first, count, keys);
  });
  const float factor = task.pages->k_scale / std::sqrt(static_cast<float>(task.head_dim()));
  float* const totals = b.q;  // the queries are no longer needed
  for (std::int64_t h = 0; h < task.heads; ++h) {
    totals[h] = SoftmaxNumerators(b.scores + h * b.stride, tokens, b.stride, factor);
  }
  for_each_tile(b.value, [&](std::int64_t first, std::int64_t count, const auto* values) {
    AddHeads<kUsed>(task, b, dim, first, count, values);
  });
  for (std::int64_t h = 0; h < task.heads; ++h) {
    StoreGated(b.sum + h * b.dim, task.pages->v_scale / totals[h],
               task.gate + h * task.gate_head_stride, task.head_dim(),
               task.out + h * task.head_dim());
  }
}

/// One instruction loads a vector of floats or of FP16; whole vectors of these need no tile.
template <KvDType kType>
void AttendTo(const AttentionTask& task) {
  if (task.tokens() == 0) {
    std::fill_n(task.out, task.heads * task.head_dim(), 0.0f);
    return;
  }
  if constexpr (kType != KvDType::kE4M3) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
    if (task.head_dim() % lanes == 0) return Attend<kType, false>(task);
  }
  Attend<kType, true>(task);
}

}  // namespace

void RunAttention(const AttentionTask& task) {
  switch (task.pages->layout.dtype) {
    case KvDType::kFp16:
      return AttendTo<KvDType::kFp16>(task);
    case KvDType::kE4M3:
      return AttendTo<KvDType::kE4M3>(task);
    case KvDType::kFp32:
      return AttendTo<KvDType::kFp32>(task);
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {

HWY_EXPORT(RunAttention);

ScratchSize SparseAttentionScratch(const OpSizes& sizes) {
  const QsaConfig& qsa = sizes.qsa;
  if (qsa.kv_heads == 0) return {};
  // Every selected block is whole, the open one lacks a token at least.
  const std::int64_t tokens =
      std::int64_t{qsa.budget_selection_blocks + 1} * qsa.selection_block_tokens - 1;
  Arena thread;
  HWY_NAMESPACE::TakeBuffers(thread, qsa.query_heads / qsa.kv_heads, qsa.head_dim, tokens);
  return {0, thread.bytes()};
}

void SparseAttention(const OpContext& ctx, const QsaConfig& config, ConstMatrix q, ConstMatrix gate,
                     std::int64_t gate_head_stride, std::span<const QsaSlice> slices,
                     const BlockSelection& selection, Matrix out) {
  const auto run = HWY_DYNAMIC_DISPATCH(RunAttention);
  const auto budget = static_cast<std::size_t>(config.budget_selection_blocks);
  const auto make_task = [&](std::int64_t i, int thread) {
    const SliceRow<QsaSlice> at = FindRow(slices, i / config.kv_heads);
    const std::int64_t row = at.row();
    const auto t = static_cast<std::size_t>(row);
    AttentionTask task;
    task.pages = &at.slice->kv;
    task.kv_head = i % config.kv_heads;
    task.heads = config.query_heads / config.kv_heads;
    task.selection_block_tokens = config.selection_block_tokens;
    task.blocks =
        selection.blocks.subspan(t * budget, static_cast<std::size_t>(selection.counts[t]));
    task.position = at.slice->first_position + at.offset;
    const std::int64_t head = task.kv_head * task.heads;
    task.q = q.row(row).data() + head * config.head_dim;
    task.gate = gate.data + row * gate.stride + head * gate_head_stride;
    task.gate_head_stride = gate_head_stride;
    task.out = out.row(row).data() + head * config.head_dim;
    task.scratch = ctx.scratch.Thread(thread);
    return task;
  };
  const auto body = [&](std::int64_t begin, std::int64_t end, int thread) {
    AttentionTask task = make_task(begin, thread);
    for (std::int64_t i = begin + 1; i < end; ++i) {
      const AttentionTask next = make_task(i, thread);
      task.next = &next;
      run(task);
      task = next;
    }
    run(task);
  };
  ctx.pool.ParallelFor(TotalRows(slices) * config.kv_heads, 1, body);
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
