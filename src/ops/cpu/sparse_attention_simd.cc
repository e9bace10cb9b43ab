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
#include <limits>

#include "base/checked.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/simd.h"

namespace kv8::simd {

/// One row and one K/V head.
struct AttentionTask {
  const KvPages* pages;
  std::int64_t kv_head;
  std::int64_t heads;         // query heads of this K/V head
  std::int64_t block_tokens;  // tokens of a selectable block
  std::span<const std::int32_t> blocks;
  std::int64_t position;
  const float* q;     // [heads,head_dim], contiguous
  const float* gate;  // head h at h * gate_head_stride
  std::int64_t gate_head_stride;
  float* out;  // [heads,head_dim], contiguous

  std::int64_t head_dim() const { return pages->layout.head_dim; }
  std::int64_t tail_block() const { return (position + 1) / block_tokens; }
  std::int64_t tail_tokens() const { return (position + 1) % block_tokens; }
  std::int64_t tokens() const {
    return static_cast<std::int64_t>(blocks.size()) * block_tokens + tail_tokens();
  }
};

}  // namespace kv8::simd
#endif  // KV8_OPS_CPU_SPARSE_ATTENTION_TASK_H_

#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_pages-inl.h"
#include "ops/cpu/simd_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {
namespace {

using VF = hn::Vec<hn::ScalableTag<float>>;

// Tokens decoded at a time: 16 KiB of floats at head_dim 64, half of a first-level cache.
constexpr std::int64_t kTileTokens = 64;
// Tokens whose dot products are taken together; their four sums end in one vector.
constexpr std::int64_t kScoreTokens = 4;
// Blocks between asking for one's bytes and decoding it: a memory latency's worth of decoding.
constexpr std::int64_t kPrefetchBlocks = 8;
// Every row of a buffer starts at a multiple of this many floats; the rest is zeros.
constexpr std::int64_t kRowAlign = 16;

struct Buffers {
  std::int64_t dim;     // head_dim, rounded up
  std::int64_t stride;  // tokens, rounded up
  float* q;             // [heads,dim]
  float* sum;           // [heads,dim]
  float* tile;          // [kTileTokens,dim]
  float* scores;        // [heads,stride]
};

Buffers MakeBuffers(const AttentionTask& task) {
  Buffers b;
  b.dim = RoundUp(task.head_dim(), kRowAlign);
  b.stride = RoundUp(task.tokens(), kRowAlign);
  float* p = Scratch(ScratchSlot::kAttention,
                     (2 * task.heads + kTileTokens) * b.dim + task.heads * b.stride);
  b.q = p;
  b.sum = b.q + task.heads * b.dim;
  b.tile = b.sum + task.heads * b.dim;
  b.scores = b.tile + kTileTokens * b.dim;
  std::fill_n(b.q, 2 * task.heads * b.dim, 0.0f);
  for (std::int64_t h = 0; h < task.heads; ++h) {
    std::copy_n(task.q + h * task.head_dim(), task.head_dim(), b.q + h * b.dim);
  }
  return b;
}

/// Selectable block number `entry` of the row's list; the open tail comes last.
std::int64_t BlockAt(const AttentionTask& task, std::int64_t entry) {
  const auto listed = static_cast<std::int64_t>(task.blocks.size());
  return entry < listed ? task.blocks[static_cast<std::size_t>(entry)] : task.tail_block();
}

/// Asks for the bytes of listed block `entry`, which lie anywhere in the pool.
void PrefetchBlock(const AttentionTask& task, KvSide side, std::int64_t entry) {
  constexpr std::int64_t kLine = 64;
  if (entry >= static_cast<std::int64_t>(task.blocks.size())) return;
  const std::byte* const from =
      task.pages->At(side, task.kv_head, BlockAt(task, entry) * task.block_tokens);
  const std::int64_t bytes = task.block_tokens * task.pages->layout.token_bytes();
  for (std::int64_t i = 0; i < bytes; i += kLine) hwy::Prefetch(from + i);
}

/// Decodes one side of the selected tokens [first, first + count) into the tile; rows up to a
/// multiple of kScoreTokens and the columns after head_dim become zeros. `first` is a multiple of
/// block_tokens. Reads no byte of any other token.
template <KvDType kType>
void DecodeTile(const AttentionTask& task, KvSide side, std::int64_t first, std::int64_t count,
                const Buffers& b) {
  const std::int64_t head_dim = task.head_dim();
  float* to = b.tile;
  for (std::int64_t done = 0; done < count; done += task.block_tokens) {
    const std::int64_t entry = (first + done) / task.block_tokens;
    PrefetchBlock(task, side, entry + kPrefetchBlocks);
    if (side == KvSide::kKey) PrefetchBlock(task, KvSide::kValue, entry);
    const std::int64_t run = std::min(task.block_tokens, count - done);
    const std::byte* from =
        task.pages->At(side, task.kv_head, BlockAt(task, entry) * task.block_tokens);
    if (b.dim == head_dim) {
      DecodeRun<kType>(from, run * head_dim, to);
      to += run * head_dim;
      continue;
    }
    for (std::int64_t i = 0; i < run; ++i, to += b.dim) {
      DecodeRun<kType>(from + i * task.pages->layout.token_bytes(), head_dim, to);
      std::fill(to + head_dim, to + b.dim, 0.0f);
    }
  }
  const std::int64_t padded = RoundUp(count, kScoreTokens);
  std::fill(to, b.tile + padded * b.dim, 0.0f);
}

/// Dot products of kHeads queries with every token of the tile.
template <int kHeads>
void ScoreTile(const float* HWY_RESTRICT q, const Buffers& b, std::int64_t count,
               float* HWY_RESTRICT scores) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < count; j += kScoreTokens) {
    const float* HWY_RESTRICT keys = b.tile + j * b.dim;
    VF acc[kHeads][kScoreTokens];
    for (auto& row : acc) {
      for (VF& sum : row) sum = hn::Zero(d);
    }
    for (std::int64_t i = 0; i < b.dim; i += lanes) {
      VF query[kHeads];
      for (int h = 0; h < kHeads; ++h) query[h] = hn::Load(d, q + h * b.dim + i);
      for (int t = 0; t < kScoreTokens; ++t) {
        const VF key = hn::Load(d, keys + t * b.dim + i);
        for (int h = 0; h < kHeads; ++h) acc[h][t] = hn::MulAdd(query[h], key, acc[h][t]);
      }
    }
    for (int h = 0; h < kHeads; ++h) {
      StoreSums(d, acc[h][0], acc[h][1], acc[h][2], acc[h][3], scores + h * b.stride + j);
    }
  }
}

/// sum[h] += p[h][j] * V[j] over the tile, tokens ascending, kVectors vectors of columns.
template <int kHeads, int kVectors>
void AddValues(const float* HWY_RESTRICT p, const float* HWY_RESTRICT values, const Buffers& b,
               std::int64_t count, float* HWY_RESTRICT sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VF acc[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) acc[h][v] = hn::Load(d, sum + h * b.dim + v * lanes);
  }
  for (std::int64_t j = 0; j < count; ++j) {
    VF weight[kHeads];
    for (int h = 0; h < kHeads; ++h) weight[h] = hn::Set(d, p[h * b.stride + j]);
    for (int v = 0; v < kVectors; ++v) {
      const VF value = hn::Load(d, values + j * b.dim + v * lanes);
      for (int h = 0; h < kHeads; ++h) acc[h][v] = hn::MulAdd(weight[h], value, acc[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) hn::Store(acc[h][v], d, sum + h * b.dim + v * lanes);
  }
}

template <int kHeads>
void AddTile(const float* p, const Buffers& b, std::int64_t count, float* sum) {
  constexpr int kVectors = 4;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  std::int64_t i = 0;
  for (; i + kVectors * lanes <= b.dim; i += kVectors * lanes) {
    AddValues<kHeads, kVectors>(p, b.tile + i, b, count, sum + i);
  }
  for (; i < b.dim; i += lanes) AddValues<kHeads, 1>(p, b.tile + i, b, count, sum + i);
}

/// All query heads, three at a time: 3 x 4 sums, their operands and no more fit 16 registers.
void ScoreHeads(const AttentionTask& task, const Buffers& b, std::int64_t first,
                std::int64_t count) {
  std::int64_t h = 0;
  for (; h + 3 <= task.heads; h += 3) {
    ScoreTile<3>(b.q + h * b.dim, b, count, b.scores + h * b.stride + first);
  }
  for (; h < task.heads; ++h) {
    ScoreTile<1>(b.q + h * b.dim, b, count, b.scores + h * b.stride + first);
  }
}

void AddHeads(const AttentionTask& task, const Buffers& b, std::int64_t first, std::int64_t count) {
  std::int64_t h = 0;
  for (; h + 3 <= task.heads; h += 3) {
    AddTile<3>(b.scores + h * b.stride + first, b, count, b.sum + h * b.dim);
  }
  for (; h < task.heads; ++h) {
    AddTile<1>(b.scores + h * b.stride + first, b, count, b.sum + h * b.dim);
  }
}

/// Turns dot products into exp(factor * (s - max s)) and returns their sum; entries from `tokens`
/// to the stride are padding.
float SoftmaxNumerators(float* HWY_RESTRICT scores, std::int64_t tokens, std::int64_t stride,
                        float factor) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  for (std::int64_t j = 0; j < tokens; j += lanes) {
    hn::Store(hn::Mul(hn::Load(d, scores + j), hn::Set(d, factor)), d, scores + j);
  }
  std::fill(scores + tokens, scores + stride, kLowest);
  VF max = hn::Set(d, kLowest);
  for (std::int64_t j = 0; j < stride; j += lanes) max = hn::Max(hn::Load(d, scores + j), max);
  max = hn::MaxOfLanes(d, max);
  VF sum = hn::Zero(d);
  for (std::int64_t j = 0; j < stride; j += lanes) {
    const VF e = Exp(d, hn::Sub(hn::Load(d, scores + j), max));
    hn::Store(e, d, scores + j);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// out = sum * scale * sigmoid(gate)
void StoreGated(const float* HWY_RESTRICT sum, float scale, const float* HWY_RESTRICT gate,
                std::int64_t count, float* HWY_RESTRICT out) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, sum + i), hn::Set(d, scale));
    hn::StoreU(hn::Mul(scaled, Sigmoid(d, hn::LoadU(d, gate + i))), d, out + i);
  });
}

template <KvDType kType>
void Attend(const AttentionTask& task) {
  const std::int64_t tokens = task.tokens();
  if (tokens == 0) {
    std::fill_n(task.out, task.heads * task.head_dim(), 0.0f);
    return;
  }
  const Buffers b = MakeBuffers(task);
  for (std::int64_t first = 0; first < tokens; first += kTileTokens) {
    const std::int64_t count = std::min(kTileTokens, tokens - first);
    DecodeTile<kType>(task, KvSide::kKey, first, count, b);
    ScoreHeads(task, b, first, count);
  }
  const float factor = task.pages->k_scale / std::sqrt(static_cast<float>(task.head_dim()));
  float* const totals = b.q;  // the queries are no longer needed
  for (std::int64_t h = 0; h < task.heads; ++h) {
    totals[h] = SoftmaxNumerators(b.scores + h * b.stride, tokens, b.stride, factor);
  }
  for (std::int64_t first = 0; first < tokens; first += kTileTokens) {
    const std::int64_t count = std::min(kTileTokens, tokens - first);
    DecodeTile<kType>(task, KvSide::kValue, first, count, b);
    AddHeads(task, b, first, count);
  }
  for (std::int64_t h = 0; h < task.heads; ++h) {
    StoreGated(b.sum + h * b.dim, task.pages->v_scale / totals[h],
               task.gate + h * task.gate_head_stride, task.head_dim(),
               task.out + h * task.head_dim());
  }
}

}  // namespace

void RunAttention(const AttentionTask& task) {
  switch (task.pages->layout.dtype) {
    case KvDType::kFp16:
      return Attend<KvDType::kFp16>(task);
    case KvDType::kE4M3:
      return Attend<KvDType::kE4M3>(task);
    case KvDType::kFp32:
      return Attend<KvDType::kFp32>(task);
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {

HWY_EXPORT(RunAttention);

void SparseAttention(const OpContext& ctx, const QsaConfig& config, ConstMatrix q, ConstMatrix gate,
                     std::int64_t gate_head_stride, std::span<const QsaSlice> slices,
                     const BlockSelection& selection, Matrix out) {
  const auto run = HWY_DYNAMIC_DISPATCH(RunAttention);
  const auto budget = static_cast<std::size_t>(config.budget_blocks);
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const SliceRow at = FindRow(slices, i / config.kv_heads);
      const std::int64_t row = at.row();
      const auto t = static_cast<std::size_t>(row);
      AttentionTask task;
      task.pages = &at.slice->kv;
      task.kv_head = i % config.kv_heads;
      task.heads = config.query_heads / config.kv_heads;
      task.block_tokens = config.block_tokens;
      task.blocks =
          selection.blocks.subspan(t * budget, static_cast<std::size_t>(selection.counts[t]));
      task.position = at.slice->first_position + at.offset;
      const std::int64_t head = task.kv_head * task.heads;
      task.q = q.row(row).data() + head * config.head_dim;
      task.gate = gate.data + row * gate.stride + head * gate_head_stride;
      task.gate_head_stride = gate_head_stride;
      task.out = out.row(row).data() + head * config.head_dim;
      run(task);
    }
  };
  ctx.pool.ParallelFor(TotalRows(slices) * config.kv_heads, 1, body);
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
