// Panels of weights that are stored as codes with scales: decoded on the way into the registers.
// docs/kernels/quantised-weights.md explains them. Included once per instruction set.
//
// As in linear_kernels-inl.h, vectors run over the rows of a panel. Each decoded weight is code
// times scale in FP32; the sums have the order of product.h, and the global scale comes last.

#if defined(KV8_OPS_CPU_CODE_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_CODE_PANELS_INL_H_
#undef KV8_OPS_CPU_CODE_PANELS_INL_H_
#else
#define KV8_OPS_CPU_CODE_PANELS_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "hwy/highway.h"
#include "ops/cpu/linear_kernels-inl.h"
#include "ops/cpu/weight_codes-inl.h"
#include "tensor/weight_row.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FullVec = hn::Vec<Full>;

// Columns that have one vector of scales: every group that the fast loops take is a multiple.
inline constexpr std::int64_t kScaleColumns = 16;
// Columns whose scales are decoded at a time; what holds them stays in the first cache level.
inline constexpr std::int64_t kScaleSpan = 512;

// The rows of a panel; the last of them stands in for those that are missing.
struct PanelRows {
  const std::byte* at[kPanel];
  PanelRows(const std::byte* base, std::int64_t stride, std::int64_t count) {
    for (std::int64_t i = 0; i < kPanel; ++i) at[i] = base + std::min(i, count - 1) * stride;
  }
};

// Some of a panel's rows, as LoadWords takes them.
struct RowRange {
  const std::byte* const* at;
  const std::byte* row(int i) const { return at[i]; }
};

// Scales and zero points of a panel for up to kScaleSpan columns.
struct PanelScales {
  HWY_ALIGN float scale[kScaleSpan / kScaleColumns][kPanel];
  HWY_ALIGN float zero[kScaleSpan / kScaleColumns][kPanel];  // kInt4 alone: with Int4Code::kBias
};

// Columns of `panel` that the fast loops take; the rest goes one by one.
template <class Code>
HWY_INLINE std::int64_t FastColumns(const Weight& panel) {
  if (panel.group % kScaleColumns != 0) return 0;
  return panel.cols / kStep<Code> * kStep<Code>;
}

// 16 bytes of each of a panel's rows of scales or zero points; zeros after the end of a row.
struct GroupWords {
  const std::byte* at[kPanel];
  std::byte copy[kPanel][16];
  GroupWords(const Weight& panel, const std::byte* base, std::int64_t row_bytes,
             std::int64_t offset) {
    const std::int64_t left = row_bytes - offset;
    for (std::int64_t r = 0; r < kPanel; ++r) {
      const std::int64_t row = panel.scale_row + std::min(r, panel.rows - 1);
      at[r] = base + row / panel.group_rows * row_bytes + offset;
      if (left >= 16) continue;
      std::memset(copy[r], 0, 16);
      std::memcpy(copy[r], at[r], static_cast<std::size_t>(left));
      at[r] = copy[r];
    }
  }
};

// Of a scale or zero point per group, the values that columns [k, k + count) of the panel need:
// to[u] for the columns from k + u * kScaleColumns on. `base` is the weight's scale row 0.
template <class Element>
void LoadGroups(const Weight& panel, const std::byte* base, std::int64_t k, std::int64_t count,
                float (*to)[kPanel]) {
  const Full d;
  constexpr int kPerWord = kWeightsPerWord<Element>;
  const std::int64_t row_bytes = panel.scale_cols() * Element::kBytes;
  const std::int64_t last = (k + count - 1) / panel.group;
  for (std::int64_t first = k / panel.group; first <= last; first += 4 * kPerWord) {
    const GroupWords rows(panel, base, row_bytes, first * Element::kBytes);
    for (int v = 0; v < kPanelVectors; ++v) {
      WordsOf<Full> word[4];
      LoadWords(d, RowRange{rows.at + v * kFullLanes}, 0, word);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        FullVec value[kPerWord];
        Element::Split(d, word[j], value);
#pragma GCC unroll 4
        for (int i = 0; i < kPerWord; ++i) {
          const std::int64_t begin = (first + j * kPerWord + i) * panel.group;
          const std::int64_t end = std::min(k + count, begin + panel.group);
          for (std::int64_t col = std::max(k, begin); col < end; col += kScaleColumns) {
            hn::Store(value[i], d, to[(col - k) / kScaleColumns] + v * kFullLanes);
          }
        }
      }
    }
  }
}

// Weight k of vector v of the panel's rows.
HWY_INLINE FullVec LoadOneCode(const Weight& panel, int v, std::int64_t k) {
  HWY_ALIGN float values[kFullLanes];
  for (int i = 0; i < kFullLanes; ++i) {
    const std::int64_t row = std::min<std::int64_t>(v * kFullLanes + i, panel.rows - 1);
    values[i] = CodeAt(panel, row, k) * ScaleAt(panel, row, k);
  }
  return hn::Load(Full(), values);
}

template <class Code>
void LoadScales(const Weight& panel, std::int64_t k, std::int64_t count, PanelScales& to) {
  if constexpr (Code::kHasZero) {
    if (panel.zero_points == nullptr) {
      std::fill_n(to.zero[0], kScaleSpan / kScaleColumns * kPanel,
                  Code::kBias + kSymmetricZeroPoint);
    } else {
      LoadGroups<ZeroPointElement>(panel, panel.zero_points, k, count, to.zero);
    }
  }
  switch (panel.scale_format) {
    case ScaleFormat::kNone:
      std::fill_n(to.scale[0], kScaleSpan / kScaleColumns * kPanel, 1.0f);
      return;
    case ScaleFormat::kE4m3:
      return LoadGroups<E4m3Element>(panel, panel.scales, k, count, to.scale);
    case ScaleFormat::kBf16:
      return LoadGroups<Bf16Element>(panel, panel.scales, k, count, to.scale);
    case ScaleFormat::kFp16:
      return LoadGroups<F16Element>(panel, panel.scales, k, count, to.scale);
    case ScaleFormat::kFp32:
      return LoadGroups<F32Element>(panel, panel.scales, k, count, to.scale);
  }
}

// Calls use(v, k + i, i, w) for weights [k, k + kStep) of vector v of the panel's rows; `at` is
// where k lies in the span of scales.
template <class Code, class Use>
HWY_INLINE void ForEachOfStep(const PanelRows& rows, int v, std::int64_t k, std::int64_t at,
                              const PanelScales& scales, Use& use) {
  const Full d;
  constexpr int kPerWord = 32 / Code::kBits;
  WordsOf<Full> word[4];
  LoadWords(d, RowRange{rows.at + v * kFullLanes}, k * Code::kBits / 8, word);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const std::int64_t u = (at + j * kPerWord) / kScaleColumns;
    const FullVec scale = hn::Load(d, scales.scale[u] + v * kFullLanes);
    FullVec zero = hn::Zero(d);
    if constexpr (Code::kHasZero) zero = hn::Load(d, scales.zero[u] + v * kFullLanes);
    FullVec w[kPerWord];
    SplitWord<Code>(d, word[j], zero, scale, w, std::make_integer_sequence<int, kPerWord>());
#pragma GCC unroll 8
    for (int i = 0; i < kPerWord; ++i) use(v, k, j * kPerWord + i, w[i]);
  }
}

// Calls use(v, k, i, w) for the weights w of every vector v of rows and every column k + i, in
// ascending order of columns; k is a multiple of 4. Asks for the codes of the next panel.
template <class Code, class Use>
HWY_INLINE void ForEachWeight(const Weight& panel, Use&& use) {
  const std::int64_t stride = panel.code_row_bytes();
  const PanelRows rows(panel.codes, stride, panel.rows);
  const std::byte* ahead = panel.codes + std::max(kPrefetchBytes, kPanel * stride);
  const std::int64_t fast = FastColumns<Code>(panel);
  PanelScales scales;
  for (std::int64_t first = 0; first < fast; first += kScaleSpan) {
    const std::int64_t end = std::min(fast, first + kScaleSpan);
    LoadScales<Code>(panel, first, end - first, scales);
    for (std::int64_t k = first; k < end; k += kStep<Code>, ahead += kPanel * 16) {
#pragma GCC unroll 4
      for (int i = 0; i < kPanel * 16; i += 64) hwy::Prefetch(ahead + i);
#pragma GCC unroll 16
      for (int v = 0; v < kPanelVectors; ++v) {
        ForEachOfStep<Code>(rows, v, k, k - first, scales, use);
      }
    }
  }
  for (std::int64_t k = fast; k < panel.cols; ++k) {
#pragma GCC unroll 16
    for (int v = 0; v < kPanelVectors; ++v) {
      use(v, k / 4 * 4, static_cast<int>(k % 4), LoadOneCode(panel, v, k));
    }
  }
}

// out[0, panel.rows) = x . rows of the panel.
template <class Code>
void RowTimesCodes(const float* HWY_RESTRICT x, const Weight& panel, float* HWY_RESTRICT out) {
  const Full d;
  FullVec sum[kPanelVectors][2];  // the two brackets of product.h
#pragma GCC unroll 16
  for (int v = 0; v < kPanelVectors; ++v) sum[v][0] = sum[v][1] = hn::Zero(d);
  ForEachWeight<Code>(panel, [&](int v, std::int64_t k, int i, FullVec w) HWY_ATTR {
    FullVec& to = sum[v][i / 2 % 2];
    to = hn::MulAdd(hn::Set(d, x[k + i]), w, to);
  });
  HWY_ALIGN float values[kPanel];
#pragma GCC unroll 16
  for (int v = 0; v < kPanelVectors; ++v) {
    hn::Store(hn::Mul(hn::Add(sum[v][0], sum[v][1]), hn::Set(d, panel.global_scale)), d,
              values + v * kFullLanes);
  }
  std::copy_n(values, panel.rows, out);
}

// The panel as floats [K][kPanel], in the order of PackPanel.
template <class Code>
void ExpandPanel(const Weight& panel, float* HWY_RESTRICT packed) {
  ForEachWeight<Code>(panel, [&](int v, std::int64_t k, int i, FullVec w) HWY_ATTR {
    float* const to = packed + PackedRow(k + i / 2 % 2 * 2, panel.cols) * kPanel;
    hn::StoreU(w, Full(), to + (i / 4 * 2 + i % 2) * kPanel + v * kFullLanes);
  });
}

// All rows of x times an expanded panel.
inline void RowsTimesExpanded(const float* packed, const Weight& panel, ConstMatrix x, Matrix out) {
  RowsTimesPacked(packed, panel.cols, x, NothingAhead(packed), out);
  if (panel.global_scale == 1) return;
  for (std::int64_t t = 0; t < out.rows; ++t) {
    for (float& value : out.row(t)) value *= panel.global_scale;
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
