// The choice of selection blocks: index keys times queries in the product kernel's tiles, then a
// running selection. Design and figures: docs/kernels/select_blocks.md.
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
#include "ops/cpu/scratch_plan.h"
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

/// A panel of keys and its dot products with the queries of some rows.
struct PanelBuffers {
  float* packed;  // [dim,kPanel]
  float* dots;    // [dot rows,kPanel]
};

std::int64_t DotRows(std::int64_t rows, std::int64_t heads) {
  return std::min(kDotRows, rows) * heads;
}

PanelBuffers TakePanelBuffers(Arena& arena, std::int64_t rows, std::int64_t heads,
                              std::int64_t dim) {
  return {arena.Take<float>(dim * kPanel), arena.Take<float>(DotRows(rows, heads) * kPanel)};
}

template <class Element>
void ScoreKeys(const std::byte* keys, ConstMatrix iq, Arena scratch, Matrix scores) {
  const std::int64_t heads = iq.rows / scores.rows;
  const std::int64_t dim = iq.cols;
  const PanelBuffers b = TakePanelBuffers(scratch, scores.rows, heads, dim);
  float* const packed = b.packed;
  const Matrix dots(b.dots, DotRows(scores.rows, heads), scores.cols, kPanel);
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
void ScorePanel(const IndexPages& index, std::int64_t first, ConstMatrix iq, Arena scratch,
                Matrix scores) {
  if (index.layout.fp32) return ScoreKeys<F32Element>(index.At(first), iq, scratch, scores);
  ScoreKeys<F16Element>(index.At(first), iq, scratch, scores);
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
  /// Selection blocks of the group's row `i`.
  std::int64_t Complete(const QsaConfig& config, std::int64_t i) const {
    return (slice->first_position + offset + i + 1) / config.selection_block_tokens;
  }
};

std::int64_t GroupRows(std::int64_t blocks) {
  return std::clamp(kGroupScores / std::max<std::int64_t>(1, blocks), kLeastGroupRows, kGroupRows);
}

std::int64_t GroupRows(const QsaConfig& config, const QsaSlice& slice) {
  return GroupRows((slice.first_position + slice.row_count) / config.selection_block_tokens);
}

/// Whether so many groups are shared out; else each one's work is.
bool SharesGroups(std::int64_t groups, int threads) {
  return groups >= 2 * threads;
}

std::int64_t GroupCount(const QsaConfig& config, const QsaSlice& slice) {
  return CeilDiv(slice.row_count, GroupRows(config, slice));
}

/// Group number `index`, counted over all slices.
RowGroup FindGroup(const QsaConfig& config, std::span<const QsaSlice> slices, std::int64_t index) {
  auto slice = slices.begin();
  for (; index >= GroupCount(config, *slice); ++slice) index -= GroupCount(config, *slice);
  const std::int64_t rows = GroupRows(config, *slice);
  return {&*slice, index * rows, std::min(rows, slice->row_count - index * rows)};
}

/// One group's work and its buffers.
struct ScoreTask {
  const IndexPages* index;
  ConstMatrix iq;  // [rows*heads,index_dim]
  Matrix scores;   // [rows,blocks]: all blocks that the last row may select

  std::int64_t panels_per_page() const { return CeilDiv(index->layout.keys_per_page, kPanelKeys); }
  std::int64_t panels() const {
    return CeilDiv(scores.cols, index->layout.keys_per_page) * panels_per_page();
  }
};

struct GroupBuffers {
  float* queries;  // [rows*heads,index_dim]
  Matrix scores;   // [rows,blocks]
};

GroupBuffers TakeGroup(Arena& arena, const QsaConfig& config, std::int64_t rows,
                       std::int64_t blocks) {
  const std::int64_t stride = RoundUp(blocks, kAlign);
  return {arena.Take<float>(rows * config.index_heads * config.index_dim),
          Matrix(arena.Take<float>(rows * stride), rows, blocks, stride)};
}

ScoreTask MakeTask(const QsaConfig& config, ConstMatrix iq, const RowGroup& group, Arena& scratch) {
  const GroupBuffers b =
      TakeGroup(scratch, config, group.rows, group.Complete(config, group.rows - 1));
  for (std::int64_t t = 0; t < group.rows; ++t) {
    std::copy_n(iq.row(group.row() + t).data(), iq.cols, b.queries + t * iq.cols);
  }
  return {&group.slice->index,
          ConstMatrix(b.queries, group.rows * config.index_heads, config.index_dim), b.scores};
}

void ScorePanels(const ScoreTask& task, Arena scratch, std::int64_t begin, std::int64_t end) {
  const std::int64_t page_keys = task.index->layout.keys_per_page;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t in_page = i % task.panels_per_page() * kPanelKeys;
    const std::int64_t first = i / task.panels_per_page() * page_keys + in_page;
    const std::int64_t keys = std::min({kPanelKeys, page_keys - in_page, task.scores.cols - first});
    if (keys <= 0) return;  // the last page ends before its last panels
    HWY_DYNAMIC_DISPATCH(ScorePanel)
    (*task.index, first, task.iq, scratch, task.scores.Cols(first, keys));
  }
}

/// Buffers of one row's choice.
struct ChoiceBuffers {
  float* maxima;       // [2*budget, rounded up]
  std::int64_t* keys;  // [2*budget]
};

ChoiceBuffers TakeChoice(Arena& arena, std::int64_t budget) {
  return {arena.Take<float>(RoundUp(2 * budget, kAlign)), arena.Take<std::int64_t>(2 * budget)};
}

std::int32_t Choose(std::span<const float> scores, std::int64_t budget, Arena scratch,
                    std::int32_t* out) {
  const ChoiceBuffers b = TakeChoice(scratch, budget);
  TopBlocks top({b.keys, static_cast<std::size_t>(2 * budget)}, budget);
  return HWY_DYNAMIC_DISPATCH(TakeBest)(scores.data(), static_cast<std::int64_t>(scores.size()),
                                        budget, b.maxima, top, out);
}

/// Selects for all rows of a group; `loop` runs its loops, here or on all threads, and gives them
/// scratch beside the group's own.
template <class Loop>
void SelectGroup(const Loop& loop, const QsaConfig& config, ConstMatrix iq, RowGroup group,
                 Arena scratch, const BlockSelection& selection) {
  const std::int64_t budget = config.budget_selection_blocks;
  const auto out = [&](std::int64_t row) { return selection.blocks.data() + row * budget; };
  // Later rows have more blocks: those within the budget come first.
  for (; group.rows > 0 && group.Complete(config, 0) <= budget; ++group.offset, --group.rows) {
    const auto complete = static_cast<std::int32_t>(group.Complete(config, 0));
    std::iota(out(group.row()), out(group.row()) + complete, 0);
    selection.counts[static_cast<std::size_t>(group.row())] = complete;
  }
  if (group.rows == 0) return;
  const ScoreTask task = MakeTask(config, iq, group, scratch);
  loop(scratch, task.panels(), kPanelGrain, [&](Arena left, std::int64_t begin, std::int64_t end) {
    ScorePanels(task, left, begin, end);
  });
  loop(scratch, group.rows, 1, [&](Arena left, std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const auto complete = static_cast<std::size_t>(group.Complete(config, t));
      const std::int64_t row = group.row() + t;
      selection.counts[static_cast<std::size_t>(row)] =
          Choose(task.scores.row(t).first(complete), budget, left, out(row));
    }
  });
}

/// Index of a loop over `count` groups, folded: later ones have more blocks, so each thread's range
/// takes from both ends.
std::int64_t FoldedIndex(std::int64_t i, std::int64_t count) {
  return i % 2 == 0 ? i / 2 : count - 1 - i / 2;
}

/// What one thread takes for a group of `rows`, beside the group's buffers.
std::int64_t ThreadBytes(const QsaConfig& config, std::int64_t rows) {
  Arena panel, choice;
  HWY_NAMESPACE::TakePanelBuffers(panel, rows, config.index_heads, config.index_dim);
  TakeChoice(choice, config.budget_selection_blocks);
  return std::max(panel.bytes(), choice.bytes());
}

}  // namespace

ScratchSize SelectBlocksScratch(const OpSizes& sizes) {
  const std::int64_t others = std::max<std::int64_t>(0, std::min(sizes.sequences, sizes.rows) - 1);
  ScratchSize most;
  for (std::int64_t rows = 1; rows <= std::min(sizes.rows, kGroupRows); ++rows) {
    // The longest context that leaves a group so many rows.
    const std::int64_t blocks =
        rows <= kLeastGroupRows ? sizes.sequence_selection_blocks
                                : std::min(sizes.sequence_selection_blocks, kGroupScores / rows);
    if (blocks <= sizes.qsa.budget_selection_blocks) continue;  // all are selected
    Arena group;
    TakeGroup(group, sizes.qsa, rows, blocks);
    const std::int64_t thread = ThreadBytes(sizes.qsa, rows);
    most.Cover({group.bytes(), thread});
    const std::int64_t groups = others + CeilDiv(sizes.rows - others, GroupRows(blocks));
    if (SharesGroups(groups, sizes.threads)) most.Cover({0, group.bytes() + thread});
  }
  return most;
}

void SelectBlocks(const OpContext& ctx, const QsaConfig& config, ConstMatrix iq,
                  std::span<const QsaSlice> slices, const BlockSelection& selection) {
  std::int64_t groups = 0;
  for (const QsaSlice& slice : slices) groups += GroupCount(config, slice);
  if (!SharesGroups(groups, ctx.pool.size())) {
    const auto loop = [&](Arena, std::int64_t count, std::int64_t grain, const auto& body) {
      ctx.pool.ParallelFor(count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
        body(ctx.scratch.Thread(thread), begin, end);
      });
    };
    for (std::int64_t i = 0; i < groups; ++i) {
      const RowGroup group = FindGroup(config, slices, i);
      SelectGroup(loop, config, iq, group, ctx.scratch.shared, selection);
    }
    return;
  }
  const auto inline_loop = [](Arena left, std::int64_t count, std::int64_t, const auto& body) {
    body(left, std::int64_t{0}, count);
  };
  ctx.pool.ParallelFor(groups, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      const RowGroup group = FindGroup(config, slices, FoldedIndex(i, groups));
      SelectGroup(inline_loop, config, iq, group, ctx.scratch.Thread(thread), selection);
    }
  });
}

}  // namespace kv8::simd
#endif  // HWY_ONCE
