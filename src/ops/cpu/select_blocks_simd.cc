// Block selection: scores with four heads per key in registers, then a running selection.
// Design and figures: docs/kernels/select_blocks.md.
#include "ops/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/select_blocks_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "hwy/highway.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/simd_math-inl.h"
#include "ops/cpu/simd_pages-inl.h"
#include "ops/cpu/simd_sums-inl.h"
#include "ops/cpu/top_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {
namespace {

using VF = hn::Vec<hn::ScalableTag<float>>;

// Heads of one pass over a key: their four dot products end in one vector.
constexpr int kHeads = 4;
// Keys of one pass: 4 x 2 sums keep both multipliers busy.
constexpr int kKeys = 2;

/// Dot products of kHeads query heads with one key's columns that do not fill a vector.
template <KvDType kType>
void AddTail(const float* iq, const std::byte* key, std::int64_t begin, std::int64_t dim,
             float* dots) {
  for (std::int64_t i = begin; i < dim; ++i) {
    const float k = LoadKvElement(kType, key, i);
    for (int h = 0; h < kHeads; ++h) dots[h] += iq[h * dim + i] * k;
  }
}

/// sums[h] += max(0, dots[h]); NaN stays.
HWY_INLINE void AddPositive(const float* HWY_RESTRICT dots, float* HWY_RESTRICT sums) {
  const hn::CappedTag<float, kHeads> d;
  for (int h = 0; h < kHeads; h += static_cast<int>(hn::Lanes(d))) {
    const auto dot = hn::Load(d, dots + h);
    const auto positive = hn::IfThenZeroElse(hn::Lt(dot, hn::Zero(d)), dot);
    hn::Store(hn::Add(hn::Load(d, sums + h), positive), d, sums + h);
  }
}

/// Adds max(0, iq[h] . key) of kHeads heads and kKeys keys to `sums`.
template <KvDType kType>
HWY_INLINE void AddKeys(const float* HWY_RESTRICT iq, const std::byte* const* keys,
                        std::int64_t dim, float (*sums)[kHeads]) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VF acc[kKeys][kHeads];
  for (auto& row : acc) {
    for (VF& sum : row) sum = hn::Zero(d);
  }
  std::int64_t i = 0;
  for (; i + lanes <= dim; i += lanes) {
    VF key[kKeys];
    for (int n = 0; n < kKeys; ++n) key[n] = LoadPage<kType>(d, keys[n] + i * SizeOf(kType));
    for (int h = 0; h < kHeads; ++h) {
      const VF query = hn::LoadU(d, iq + h * dim + i);
      for (int n = 0; n < kKeys; ++n) acc[n][h] = hn::MulAdd(query, key[n], acc[n][h]);
    }
  }
  HWY_ALIGN float dots[kKeys][kHeads];
  for (int n = 0; n < kKeys; ++n) {
    StoreSums(d, acc[n][0], acc[n][1], acc[n][2], acc[n][3], dots[n]);
  }
  if (i < dim) {
    for (int n = 0; n < kKeys; ++n) AddTail<kType>(iq, keys[n], i, dim, dots[n]);
  }
  for (int n = 0; n < kKeys; ++n) AddPositive(dots[n], sums[n]);
}

/// NaN becomes -1, below every score.
void RankNaNsLast(float* scores, std::int64_t count) {
  ForEachVector(hn::ScalableTag<float>(), count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto score = hn::LoadU(d, scores + i);
    hn::StoreU(hn::IfThenElse(hn::IsNaN(score), hn::Set(d, -1.0f), score), d, scores + i);
  });
}

/// scores[b - begin] of the blocks [begin, end). `iq` holds a multiple of kHeads heads.
template <KvDType kType>
void ScoreRange(const QsaConfig& config, const IndexPages& index, const float* iq,
                std::int64_t begin, std::int64_t end, float* scores) {
  for (std::int64_t b = begin; b < end; b += kKeys) {
    const std::byte* const keys[kKeys] = {index.At(b), index.At(std::min(b + 1, end - 1))};
    HWY_ALIGN float sums[kKeys][kHeads] = {};
    for (int h = 0; h < config.index_heads; h += kHeads) {
      AddKeys<kType>(iq + h * config.index_dim, keys, config.index_dim, sums);
    }
    for (std::int64_t n = 0; n < std::min<std::int64_t>(kKeys, end - b); ++n) {
      scores[b - begin + n] = (sums[n][0] + sums[n][2]) + (sums[n][1] + sums[n][3]);
    }
  }
  RankNaNsLast(scores, end - begin);
}

}  // namespace

void ScoreBlocks(const QsaConfig& config, const IndexPages& index, const float* iq,
                 std::int64_t begin, std::int64_t end, float* scores) {
  if (index.layout.fp32) {
    ScoreRange<KvDType::kFp32>(config, index, iq, begin, end, scores);
  } else {
    ScoreRange<KvDType::kFp16>(config, index, iq, begin, end, scores);
  }
}

/// The best `budget` of the scores, ascending. scores[count ..] up to a vector is readable.
std::int32_t TakeBest(const float* HWY_RESTRICT scores, std::int64_t count, TopBlocks& top,
                      std::int32_t* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t b = 0; b < count; b += lanes) {
    const auto better = hn::Gt(hn::Load(d, scores + b), hn::Set(d, top.threshold()));
    if (hn::AllFalse(d, better)) continue;
    for (std::int64_t i = b; i < std::min(b + lanes, count); ++i) {
      if (scores[i] > top.threshold()) top.Offer(scores[i], static_cast<std::int32_t>(i));
    }
  }
  return top.Take(out);
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kv8::simd {

HWY_EXPORT(ScoreBlocks);
HWY_EXPORT(TakeBest);

namespace {

// Blocks that one thread scores at least, when the threads share a row: about 2 us of work.
constexpr std::int64_t kScoreGrain = 128;
// Rows of a buffer start at multiples of this many floats.
constexpr std::int64_t kAlign = 16;

/// One row's work and its buffers, in the calling thread's scratch.
struct SelectTask {
  const QsaConfig* config;
  const IndexPages* index;
  std::int64_t complete;  // selectable blocks
  float* iq;              // [heads,index_dim], heads rounded up, the added ones zero
  float* scores;          // [complete], rounded up
  std::int64_t* keys;     // [2 * budget_blocks]
};

SelectTask MakeTask(const QsaConfig& config, const IndexPages& index, std::int64_t complete,
                    std::span<const float> iq) {
  const std::int64_t heads = CeilDiv(config.index_heads, 4) * 4;
  const std::int64_t query = CeilDiv(heads * config.index_dim, kAlign) * kAlign;
  const std::int64_t scores = CeilDiv(complete, kAlign) * kAlign;
  float* const p = Scratch(ScratchSlot::kSelect, query + scores + 4 * config.budget_blocks);
  std::fill_n(std::copy(iq.begin(), iq.end(), p), query - static_cast<std::int64_t>(iq.size()),
              0.0f);
  return {&config, &index,    complete,
          p,       p + query, reinterpret_cast<std::int64_t*>(p + query + scores)};
}

void ScorePart(const SelectTask& task, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(ScoreBlocks)
  (*task.config, *task.index, task.iq, begin, end, task.scores + begin);
}

std::int32_t Take(const SelectTask& task, std::int32_t* out) {
  const auto budget = static_cast<std::size_t>(task.config->budget_blocks);
  TopBlocks top({task.keys, 2 * budget}, task.config->budget_blocks);
  return HWY_DYNAMIC_DISPATCH(TakeBest)(task.scores, task.complete, top, out);
}

/// Index of a loop over `rows` rows, folded: later rows have more blocks, so each thread's range
/// takes from both ends.
std::int64_t FoldedIndex(std::int64_t i, std::int64_t rows) {
  return i % 2 == 0 ? i / 2 : rows - 1 - i / 2;
}

}  // namespace

void SelectBlocks(const OpContext& ctx, const QsaConfig& config, ConstMatrix iq,
                  std::span<const QsaSlice> slices, const BlockSelection& selection) {
  const std::int64_t rows = TotalRows(slices);
  const bool share_rows = rows < 2 * ctx.pool.size();
  const auto select = [&](std::int64_t index) {
    const SliceRow at = FindRow(slices, index);
    const std::int64_t row = at.row();
    const std::int64_t complete = (at.slice->first_position + at.offset + 1) / config.block_tokens;
    std::int32_t* const out = selection.blocks.data() + row * config.budget_blocks;
    std::int32_t& count = selection.counts[static_cast<std::size_t>(row)];
    if (complete <= config.budget_blocks) {
      std::iota(out, out + complete, 0);
      count = static_cast<std::int32_t>(complete);
      return;
    }
    const SelectTask task = MakeTask(config, at.slice->index, complete, iq.row(row));
    const auto score = [&](std::int64_t begin, std::int64_t end) { ScorePart(task, begin, end); };
    if (share_rows) {
      ctx.pool.ParallelFor(complete, kScoreGrain, score);
    } else {
      score(0, complete);
    }
    count = Take(task, out);
  };
  if (share_rows) {
    for (std::int64_t i = 0; i < rows; ++i) select(i);
    return;
  }
  ctx.pool.ParallelFor(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) select(FoldedIndex(i, rows));
  });
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
