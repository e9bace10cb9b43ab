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
  float* out;                           // [heads,head_dim], contiguous
  const AttentionTask* next = nullptr;  // what the thread does after it

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

// Tokens whose values are added at a time: with the tile, where there is one, half of a first-level
// cache at head_dim 64.
constexpr std::int64_t kTileTokens = 64;
// Tokens whose dot products are taken together; their four sums end in one vector.
constexpr std::int64_t kScoreTokens = 4;
// Vectors between asking for one's bytes and using them: a tile is decoded as a whole.
constexpr std::int64_t kPrefetchTokens = kTileTokens;
// Every row of a buffer starts at a multiple of this many floats; the rest is zeros.
constexpr std::int64_t kRowAlign = 16;

struct Buffers {
  std::int64_t dim;     // head_dim, rounded up
  std::int64_t stride;  // tokens, rounded up
  float* q;             // [heads,dim]
  float* sum;           // [heads,dim]
  float* tile;          // [kTileTokens,dim]
  float* scores;        // [heads,stride]
  // Where vectors lie, in the order of their use:
  const std::byte** key;    // [stride]: each token's K; padding repeats the last,
  const std::byte** value;  // [stride]: its V,
  const std::byte** next;   // [kPrefetchTokens]: the next task's first K
  const std::byte** row;    // [kTileTokens]: rows of the tile
};

/// Where one side of the first `count` tokens lies. Repeats the last to fill up; without any, what
/// stands before `at`.
void LocateTokens(const AttentionTask& task, KvSide side, std::int64_t count,
                  const std::byte** at) {
  const std::int64_t bytes = task.pages->layout.token_bytes();
  const std::byte** const end = at + count;
  const auto locate = [&](std::int64_t block, std::int64_t tokens) {
    const std::byte* const from = task.pages->At(side, task.kv_head, block * task.block_tokens);
    const std::int64_t taken = std::min<std::int64_t>(tokens, end - at);
    for (std::int64_t i = 0; i < taken; ++i) *at++ = from + i * bytes;
  };
  for (const std::int32_t block : task.blocks) {
    if (at == end) return;
    locate(block, task.block_tokens);
  }
  if (task.tail_tokens() > 0) locate(task.tail_block(), task.tail_tokens());
  std::fill(at, end, at[-1]);
}

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
  b.key = Scratch<const std::byte*>(ScratchSlot::kAttentionTokens,
                                    2 * b.stride + kPrefetchTokens + kTileTokens);
  b.value = b.key + b.stride;
  b.next = b.value + b.stride;
  b.row = b.next + kPrefetchTokens;
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

/// Asks for what is used kPrefetchTokens after the vectors at [from, from + count): as many bytes
/// with the keys as with the values, since memory serves them slower than a pass uses them.
void PrefetchAfter(const std::byte* const* from, std::int64_t count, std::int64_t bytes) {
  for (std::int64_t i = 0; i < count; ++i) PrefetchVector(from[i + kPrefetchTokens], bytes);
}

/// Decodes the vectors at [0, count) into the tile, zeros in the columns after head_dim, and
/// returns where its rows lie, padded like Buffers::key.
template <KvDType kType>
const std::byte* const* DecodeTile(const std::byte* const* at, std::int64_t count,
                                   std::int64_t head_dim, const Buffers& b) {
  for (std::int64_t i = 0; i < count; ++i) {
    float* const to = b.tile + i * b.dim;
    DecodeRun<kType>(at[i], head_dim, to);
    std::fill(to + head_dim, to + b.dim, 0.0f);
    b.row[i] = reinterpret_cast<const std::byte*>(to);
  }
  std::fill(b.row + count, b.row + RoundUp(count, kScoreTokens), b.row[count - 1]);
  return b.row;
}

/// Dot products of kHeads queries with kScoreTokens keys.
template <int kHeads, KvDType kType>
void ScoreTokens(const float* HWY_RESTRICT q, const Buffers& b, std::int64_t dim,
                 const std::byte* const* keys, float* HWY_RESTRICT scores) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VF acc[kHeads][kScoreTokens];
  for (auto& row : acc) {
    for (VF& sum : row) sum = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < dim; i += lanes) {
    VF query[kHeads];
    for (int h = 0; h < kHeads; ++h) query[h] = hn::Load(d, q + h * b.dim + i);
    for (int t = 0; t < kScoreTokens; ++t) {
      const VF key = LoadPage<kType>(d, keys[t] + i * SizeOf(kType));
      for (int h = 0; h < kHeads; ++h) acc[h][t] = hn::MulAdd(query[h], key, acc[h][t]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    StoreSums(d, acc[h][0], acc[h][1], acc[h][2], acc[h][3], scores + h * b.stride);
  }
}

/// sum[h] += p[h][j] * V[j], tokens ascending, kVectors vectors of columns from `column` on.
template <int kHeads, int kVectors, KvDType kType>
void AddValues(const float* HWY_RESTRICT p, const std::byte* const* values, std::int64_t column,
               const Buffers& b, std::int64_t count, float* HWY_RESTRICT sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VF acc[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) acc[h][v] = hn::Load(d, sum + h * b.dim + v * lanes);
  }
  for (std::int64_t j = 0; j < count; ++j) {
    VF weight[kHeads];
    for (int h = 0; h < kHeads; ++h) weight[h] = hn::Set(d, p[h * b.stride + j]);
    const std::byte* const from = values[j] + column * SizeOf(kType);
    for (int v = 0; v < kVectors; ++v) {
      const VF value = LoadPage<kType>(d, from + v * lanes * SizeOf(kType));
      for (int h = 0; h < kHeads; ++h) acc[h][v] = hn::MulAdd(weight[h], value, acc[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVectors; ++v) hn::Store(acc[h][v], d, sum + h * b.dim + v * lanes);
  }
}

template <int kHeads, KvDType kType>
void AddColumns(const float* p, const std::byte* const* values, std::int64_t dim, const Buffers& b,
                std::int64_t count, float* sum) {
  constexpr int kVectors = 4;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  std::int64_t i = 0;
  for (; i + kVectors * lanes <= dim; i += kVectors * lanes) {
    AddValues<kHeads, kVectors, kType>(p, values, i, b, count, sum + i);
  }
  for (; i < dim; i += lanes) AddValues<kHeads, 1, kType>(p, values, i, b, count, sum + i);
}

/// Scores of the tokens [first, first + count), whose K lie at `keys`. All query heads, three at a
/// time: 3 x 4 sums, their operands and no more fit 16 registers.
template <KvDType kType>
void ScoreHeads(const AttentionTask& task, const Buffers& b, std::int64_t dim, std::int64_t first,
                std::int64_t count, const std::byte* const* keys) {
  for (std::int64_t j = 0; j < count; j += kScoreTokens) {
    PrefetchAfter(b.key + first + j, kScoreTokens, task.pages->layout.token_bytes());
    float* const scores = b.scores + first + j;
    std::int64_t h = 0;
    for (; h + 3 <= task.heads; h += 3) {
      ScoreTokens<3, kType>(b.q + h * b.dim, b, dim, keys + j, scores + h * b.stride);
    }
    for (; h < task.heads; ++h) {
      ScoreTokens<1, kType>(b.q + h * b.dim, b, dim, keys + j, scores + h * b.stride);
    }
  }
}

template <KvDType kType>
void AddHeads(const AttentionTask& task, const Buffers& b, std::int64_t dim, std::int64_t first,
              std::int64_t count, const std::byte* const* values) {
  const float* const p = b.scores + first;
  const std::int64_t bytes = task.pages->layout.token_bytes();
  std::int64_t fetched = 0;
  std::int64_t h = 0;
  for (; h + 3 <= task.heads; h += 3) {
    const std::int64_t share = CeilDiv(3 * count, task.heads);
    PrefetchAfter(b.value + first + fetched, std::min(share, count - fetched), bytes);
    fetched += std::min(share, count - fetched);
    AddColumns<3, kType>(p + h * b.stride, values, dim, b, count, b.sum + h * b.dim);
  }
  PrefetchAfter(b.value + first + fetched, count - fetched, bytes);
  for (; h < task.heads; ++h) {
    AddColumns<1, kType>(p + h * b.stride, values, dim, b, count, b.sum + h * b.dim);
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

/// kTiled: vectors are decoded to the tile first, not used where they lie.
template <KvDType kType, bool kTiled>
void Attend(const AttentionTask& task) {
  constexpr KvDType kUsed = kTiled ? KvDType::kFp32 : kType;
  const std::int64_t tokens = task.tokens();
  const Buffers b = MakeBuffers(task);
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

void SparseAttention(const OpContext& ctx, const QsaConfig& config, ConstMatrix q, ConstMatrix gate,
                     std::int64_t gate_head_stride, std::span<const QsaSlice> slices,
                     const BlockSelection& selection, Matrix out) {
  const auto run = HWY_DYNAMIC_DISPATCH(RunAttention);
  const auto budget = static_cast<std::size_t>(config.budget_blocks);
  const auto make_task = [&](std::int64_t i) {
    const SliceRow<QsaSlice> at = FindRow(slices, i / config.kv_heads);
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
    return task;
  };
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    AttentionTask task = make_task(begin);
    for (std::int64_t i = begin + 1; i < end; ++i) {
      const AttentionTask next = make_task(i);
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
