// Sums of sparse attention, compiled once per target: dot products, softmax numerators, weighted
// values. Design and figures: docs/kernels/sparse_attention.md.

#if defined(KV8_OPS_CPU_ATTENTION_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_ATTENTION_SUMS_INL_H_
#undef KV8_OPS_CPU_ATTENTION_SUMS_INL_H_
#else
#define KV8_OPS_CPU_ATTENTION_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "ops/cpu/simd_kv_elements-inl.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using VF = hn::Vec<hn::ScalableTag<float>>;

// Tokens whose values are added at a time: with the tile, where there is one, half of a first-level
// cache at head_dim 64.
inline constexpr std::int64_t kTileTokens = 64;
// Tokens whose dot products are taken together: with six heads, twelve sums.
inline constexpr std::int64_t kScoreTokens = 2;
// Vectors between asking for one's bytes and using them: a tile is decoded as a whole.
inline constexpr std::int64_t kPrefetchTokens = kTileTokens;
// Every row of a buffer starts at a multiple of this many floats; the rest is zeros.
inline constexpr std::int64_t kRowAlign = 16;

struct AttentionBuffers {
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

/// Dot products of kHeads queries with kScoreTokens keys.
template <int kHeads, KvDType kType>
void ScoreTokens(const float* HWY_RESTRICT q, const AttentionBuffers& b, std::int64_t dim,
                 const std::byte* const* keys, float* HWY_RESTRICT scores) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VF acc[kHeads][kScoreTokens];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int t = 0; t < kScoreTokens; ++t) acc[h][t] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < dim; i += lanes) {
    VF key[kScoreTokens];
#pragma GCC unroll 8
    for (int t = 0; t < kScoreTokens; ++t) {
      key[t] = LoadKvElements<kType>(d, keys[t] + i * SizeOf(kType));
    }
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const VF query = hn::Load(d, q + h * b.dim + i);
#pragma GCC unroll 8
      for (int t = 0; t < kScoreTokens; ++t) acc[h][t] = hn::MulAdd(query, key[t], acc[h][t]);
    }
  }
  constexpr int kNext = kHeads > 1 ? 1 : 0;
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; h += 2) {
    float sums[2 * kScoreTokens];
    StoreSums(d, acc[h][0], acc[h][1], acc[h + kNext][0], acc[h + kNext][1], sums);
    for (int i = 0; i <= kNext; ++i) {
      std::copy_n(sums + i * kScoreTokens, kScoreTokens, scores + (h + i) * b.stride);
    }
  }
}

/// Vectors that are weighted and added, and where those lie that come kPrefetchTokens later.
struct ValueRun {
  const std::byte* const* at;
  std::int64_t count;
  const std::byte* const* later;
  std::int64_t later_bytes;  // of an element, which may be another than that at `at`
};

/// sum[h] += p[h][j] * V[j], tokens ascending, kVectors vectors of columns from `column` on; asks
/// for the same columns of what comes later, so that memory is asked for evenly.
template <int kHeads, int kVectors, KvDType kType>
void AddValues(const float* HWY_RESTRICT p, const ValueRun& run, std::int64_t column,
               const AttentionBuffers& b, float* HWY_RESTRICT sum) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VF acc[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[h][v] = hn::Load(d, sum + h * b.dim + v * lanes);
  }
  for (std::int64_t j = 0; j < run.count; ++j) {
    hwy::Prefetch(run.later[j] + column * run.later_bytes);
    const std::byte* const from = run.at[j] + column * SizeOf(kType);
    VF value[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      value[v] = LoadKvElements<kType>(d, from + v * lanes * SizeOf(kType));
    }
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const VF weight = hn::Set(d, p[h * b.stride + j]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[h][v] = hn::MulAdd(weight, value[v], acc[h][v]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::Store(acc[h][v], d, sum + h * b.dim + v * lanes);
  }
}

template <int kHeads, KvDType kType>
void AddColumns(const float* p, const ValueRun& run, std::int64_t dim, const AttentionBuffers& b,
                float* sum) {
  constexpr int kVectors = 2;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  std::int64_t i = 0;
  for (; i + kVectors * lanes <= dim; i += kVectors * lanes) {
    AddValues<kHeads, kVectors, kType>(p, run, i, b, sum + i);
  }
  for (; i < dim; i += lanes) AddValues<kHeads, 1, kType>(p, run, i, b, sum + i);
}

/// Calls body(std::integral_constant, first head) for all heads: six at a time, whose sums fill the
/// registers, then two, then one.
template <class Body>
HWY_INLINE void ForHeads(std::int64_t heads, const Body& body) {
  std::int64_t h = 0;
  for (; h + 6 <= heads; h += 6) body(std::integral_constant<int, 6>(), h);
  for (; h + 2 <= heads; h += 2) body(std::integral_constant<int, 2>(), h);
  for (; h < heads; ++h) body(std::integral_constant<int, 1>(), h);
}

/// Turns dot products into exp(factor * (s - max s)) and returns their sum; entries from `tokens`
/// to the stride are padding.
inline float SoftmaxNumerators(float* HWY_RESTRICT scores, std::int64_t tokens, std::int64_t stride,
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
inline void StoreGated(const float* HWY_RESTRICT sum, float scale, const float* HWY_RESTRICT gate,
                       std::int64_t count, float* HWY_RESTRICT out) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, sum + i), hn::Set(d, scale));
    hn::StoreU(hn::Mul(scaled, Sigmoid(d, hn::LoadU(d, gate + i))), d, out + i);
  });
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
