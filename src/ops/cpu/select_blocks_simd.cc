// Block selection: index keys times queries in the product kernel's tiles, then a running
// selection. Design and figures: docs/kernels/select_blocks.md.
#include "ops/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/select_blocks_simd.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/checked.h"
#include "hwy/highway.h"
#include "ops/cpu/linear_kernels-inl.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/simd.h"
#include "ops/cpu/top_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {
namespace {

// Rows whose dot products with a panel of keys are held at a time: their tiles are whole ones for
// any even number of heads, and their products stay in the first-level cache.
constexpr std::int64_t kDotRows = 6;

/// scores[b] = sum over heads of max(0, dots[head][b]), heads ascending; NaN becomes -1, below
/// every score. Rows of `dots` are kPanel apart.
void SumHeads(const float* HWY_RESTRICT dots, std::int64_t heads, std::int64_t cols,
              float* HWY_RESTRICT scores) {
  const Full d;
  HWY_ALIGN float whole[kPanel];
  float* const to = cols == kPanel ? scores : whole;
  for (std::int64_t v = 0; v < kPanel; v += kFullLanes) {
    auto sum = hn::Zero(d);
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto dot = hn::LoadU(d, dots + h * kPanel + v);
      sum = hn::Add(sum, hn::IfThenZeroElse(hn::Lt(dot, hn::Zero(d)), dot));
    }
    hn::StoreU(hn::IfThenElse(hn::IsNaN(sum), hn::Set(d, -1.0f), sum), d, to + v);
  }
  if (to == whole) std::copy_n(whole, cols, scores);
}

template <class Element>
void ScoreKeys(const std::byte* keys, ConstMatrix iq, Matrix scores) {
  const std::int64_t heads = iq.rows / scores.rows;
  const std::int64_t dim = iq.cols;
  const std::int64_t dot_rows = std::min(kDotRows, scores.rows) * heads;
  float* const packed = Scratch(ScratchSlot::kSelectWorker, (dim + dot_rows) * kPanel);
  const Matrix dots(packed + dim * kPanel, dot_rows, scores.cols, kPanel);
  PackPanel<Element>(keys, dim, static_cast<int>(scores.cols), packed);
  Ahead ahead = NextPanel<Element>(keys, dim);
  for (std::int64_t t = 0; t < scores.rows; t += kDotRows) {
    const std::int64_t rows = std::min(kDotRows, scores.rows - t);
    RowsTimesPacked(packed, dim, iq.Rows(t * heads, rows * heads), ahead,
                    dots.Rows(0, rows * heads));
    ahead = NothingAhead(packed);
    for (std::int64_t i = 0; i < rows; ++i) {
      SumHeads(dots.data + i * heads * kPanel, heads, scores.cols, scores.row(t + i).data());
    }
  }
}

/// A score that at least `budget` blocks reach: the budget-th best of the maxima of twice as many
/// disjoint sets of blocks. Not many more blocks reach it. `maxima` has room for them, rounded up.
float CommonFloor(const float* HWY_RESTRICT scores, std::int64_t count, std::int64_t budget,
                  float* HWY_RESTRICT maxima) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t sets = RoundUp(2 * budget, lanes);
  if (count < 2 * sets) return -std::numeric_limits<float>::infinity();
  std::copy_n(scores, sets, maxima);
  std::int64_t set = 0;
  for (std::int64_t b = sets; b + lanes <= count; b += lanes) {
    hn::Store(hn::Max(hn::Load(d, scores + b), hn::Load(d, maxima + set)), d, maxima + set);
    set = set + lanes == sets ? 0 : set + lanes;
  }
  std::nth_element(maxima, maxima + budget - 1, maxima + sets, std::greater<>());
  return maxima[budget - 1];
}

}  // namespace

/// scores[t,b] of the keys [first, first + scores.cols), which lie together in one page.
///   iq [rows*heads, index_dim] | scores [rows, at most kPanel]
void ScorePanel(const IndexPages& index, std::int64_t first, ConstMatrix iq, Matrix scores) {
  if (index.layout.fp32) return ScoreKeys<F32Element>(index.At(first), iq, scores);
  ScoreKeys<F16Element>(index.At(first), iq, scores);
}

/// The best `budget` of the scores, ascending. scores[count ..] up to a vector is readable.
std::int32_t TakeBest(const float* HWY_RESTRICT scores, std::int64_t count, std::int64_t budget,
                      float* maxima, TopBlocks& top, std::int32_t* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  top.RefuseBelow(CommonFloor(scores, count, budget, maxima));
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

HWY_EXPORT(ScorePanel);
HWY_EXPORT(TakeBest);

namespace {

// Rows that share a packed panel of keys: packing is then a fifteenth of the work, and their
// queries still fit the first-level cache at the bundled dimensions.
constexpr std::int64_t kGroupRows = 24;
// Long contexts get smaller groups, whose scores fit the second-level cache.
constexpr std::int64_t kGroupScores = 96 * 1024;
constexpr std::int64_t kLeastGroupRows = 6;
// Keys of one panel.
constexpr std::int64_t kPanelKeys = 16;
// Panels that one thread scores at least, when the threads share a group: about 2 us for one row.
constexpr std::int64_t kPanelGrain = 8;
// Rows of a buffer start at multiples of this many floats.
constexpr std::int64_t kAlign = 16;

/// Rows of one slice that are scored together.
struct RowGroup {
  const QsaSlice* slice;
  std::int64_t offset;  // first row inside the slice
  std::int64_t rows;

  std::int64_t row() const { return slice->row_begin + offset; }
  /// Selectable blocks of the group's row `i`.
  std::int64_t Complete(const QsaConfig& config, std::int64_t i) const {
    return (slice->first_position + offset + i + 1) / config.block_tokens;
  }
};

std::int64_t GroupRows(const QsaConfig& config, const QsaSlice& slice) {
  const std::int64_t blocks = (slice.first_position + slice.row_count) / config.block_tokens;
  return std::clamp(kGroupScores / std::max<std::int64_t>(1, blocks), kLeastGroupRows, kGroupRows);
}

std::int64_t GroupCount(const QsaConfig& config, const QsaSlice& slice) {
  return CeilDiv(slice.row_count, GroupRows(config, slice));
}

/// The group that `index` of the groups of all slices stands for.
RowGroup FindGroup(const QsaConfig& config, std::span<const QsaSlice> slices, std::int64_t index) {
  auto slice = slices.begin();
  for (; index >= GroupCount(config, *slice); ++slice) index -= GroupCount(config, *slice);
  const std::int64_t rows = GroupRows(config, *slice);
  return {&*slice, index * rows, std::min(rows, slice->row_count - index * rows)};
}

/// One group's work and its buffers, in the scratch of the thread that made it.
struct ScoreTask {
  const IndexPages* index;
  ConstMatrix iq;  // [rows*heads,index_dim]
  Matrix scores;   // [rows,blocks]: all blocks that the last row may select

  std::int64_t panels_per_page() const { return CeilDiv(index->layout.keys_per_block, kPanelKeys); }
  std::int64_t panels() const {
    return CeilDiv(scores.cols, index->layout.keys_per_block) * panels_per_page();
  }
};

ScoreTask MakeTask(const QsaConfig& config, ConstMatrix iq, const RowGroup& group) {
  const std::int64_t blocks = group.Complete(config, group.rows - 1);
  const std::int64_t stride = RoundUp(blocks, kAlign);
  const std::int64_t queries = RoundUp(group.rows * iq.cols, kAlign);
  float* const p = Scratch(ScratchSlot::kSelect, queries + group.rows * stride);
  for (std::int64_t t = 0; t < group.rows; ++t) {
    std::copy_n(iq.row(group.row() + t).data(), iq.cols, p + t * iq.cols);
  }
  return {&group.slice->index, ConstMatrix(p, group.rows * config.index_heads, config.index_dim),
          Matrix(p + queries, group.rows, blocks, stride)};
}

void ScorePanels(const ScoreTask& task, std::int64_t begin, std::int64_t end) {
  const std::int64_t page_keys = task.index->layout.keys_per_block;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t in_page = i % task.panels_per_page() * kPanelKeys;
    const std::int64_t first = i / task.panels_per_page() * page_keys + in_page;
    const std::int64_t keys = std::min({kPanelKeys, page_keys - in_page, task.scores.cols - first});
    if (keys <= 0) return;  // the last page ends before its last panels
    HWY_DYNAMIC_DISPATCH(ScorePanel)
    (*task.index, first, task.iq, task.scores.Cols(first, keys));
  }
}

std::int32_t Take(std::span<const float> scores, std::int64_t budget, std::int32_t* out) {
  const std::int64_t sets = RoundUp(2 * budget, kAlign);
  float* const maxima = Scratch(ScratchSlot::kSelectWorker, sets + 4 * budget);
  const std::span keys(reinterpret_cast<std::int64_t*>(maxima + sets),
                       static_cast<std::size_t>(2 * budget));
  TopBlocks top(keys, budget);
  return HWY_DYNAMIC_DISPATCH(TakeBest)(scores.data(), static_cast<std::int64_t>(scores.size()),
                                        budget, maxima, top, out);
}

/// Selects for all rows of a group; `loop` runs its loops, here or on all threads.
template <class Loop>
void SelectGroup(const Loop& loop, const QsaConfig& config, ConstMatrix iq, RowGroup group,
                 const BlockSelection& selection) {
  const std::int64_t budget = config.budget_blocks;
  const auto out = [&](std::int64_t row) { return selection.blocks.data() + row * budget; };
  // Later rows have more blocks: those within the budget come first.
  for (; group.rows > 0 && group.Complete(config, 0) <= budget; ++group.offset, --group.rows) {
    const auto complete = static_cast<std::int32_t>(group.Complete(config, 0));
    std::iota(out(group.row()), out(group.row()) + complete, 0);
    selection.counts[static_cast<std::size_t>(group.row())] = complete;
  }
  if (group.rows == 0) return;
  const ScoreTask task = MakeTask(config, iq, group);
  loop(task.panels(), kPanelGrain,
       [&](std::int64_t begin, std::int64_t end) { ScorePanels(task, begin, end); });
  loop(group.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto complete = static_cast<std::size_t>(group.Complete(config, t));
      const std::int64_t row = group.row() + t;
      selection.counts[static_cast<std::size_t>(row)] =
          Take(task.scores.row(t).first(complete), budget, out(row));
    }
  });
}

/// Index of a loop over `count` groups, folded: later ones have more blocks, so each thread's range
/// takes from both ends.
std::int64_t FoldedIndex(std::int64_t i, std::int64_t count) {
  return i % 2 == 0 ? i / 2 : count - 1 - i / 2;
}

}  // namespace

void SelectBlocks(const OpContext& ctx, const QsaConfig& config, ConstMatrix iq,
                  std::span<const QsaSlice> slices, const BlockSelection& selection) {
  std::int64_t groups = 0;
  for (const QsaSlice& slice : slices) groups += GroupCount(config, slice);
  if (groups < 2 * ctx.pool.size()) {  // too few to share: each group's work is cut instead
    const auto loop = [&](std::int64_t count, std::int64_t grain, const auto& body) {
      ctx.pool.ParallelFor(count, grain, body);
    };
    for (std::int64_t i = 0; i < groups; ++i) {
      SelectGroup(loop, config, iq, FindGroup(config, slices, i), selection);
    }
    return;
  }
  const auto inline_loop = [](std::int64_t count, std::int64_t, const auto& body) {
    body(std::int64_t{0}, count);
  };
  ctx.pool.ParallelFor(groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowGroup group = FindGroup(config, slices, FoldedIndex(i, groups));
      SelectGroup(inline_loop, config, iq, group, selection);
    }
  });
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
