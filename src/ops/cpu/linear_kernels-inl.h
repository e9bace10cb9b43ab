// Kernels of the matrix product, compiled once per target. docs/kernels/linear.md explains them.
//
// Both work on a panel of up to 16 weight rows (= output columns) and vectorise over those, so that
// an output's sum runs through k in one fixed order and needs no sum across lanes:
//   PackPanel + Tile   many rows of x: the panel becomes floats [K][16] once, then register tiles
//   RowTimesPanel      one row of x: the same transposed vectors, used straight from the registers
// For the row counts in between: quad_tiles-inl.h.

#if defined(KV8_OPS_CPU_LINEAR_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_LINEAR_KERNELS_INL_H_
#undef KV8_OPS_CPU_LINEAR_KERNELS_INL_H_
#else
#define KV8_OPS_CPU_LINEAR_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "ops/cpu/weight_strips-inl.h"
#include "tensor/tensor_view.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Terms of a sum's first bracket (product.h), whose k come first in a packed panel.
HWY_INLINE std::int64_t FirstTerms(std::int64_t k_count) {
  return k_count / 4 * 2 + std::min<std::int64_t>(k_count % 4, 2);
}

// Row of the panel where weight k lies.
HWY_INLINE std::int64_t PackedRow(std::int64_t k, std::int64_t k_count) {
  return (k & 2) / 2 * FirstTerms(k_count) + k / 4 * 2 + k % 2;
}

template <class Element, class Rows>
void PackStrip(const Rows& rows, std::int64_t k_count, float* HWY_RESTRICT packed) {
  const Strip d;
  std::int64_t k = 0;
  for (; k + kGroup<Element> <= k_count; k += kGroup<Element>) {
    StripVec w[kGroup<Element>];
    LoadGroup(Element(), rows, k * Element::kBytes, w);
    float* to[2] = {packed + PackedRow(k, k_count) * kPanel,
                    packed + PackedRow(k + 2, k_count) * kPanel};
#pragma GCC unroll 8
    for (int i = 0; i < kGroup<Element>; ++i) {
      hn::StoreU(w[i], d, to[i / 2 % 2] + (i / 4 * 2 + i % 2) * kPanel);
    }
  }
  for (; k < k_count; ++k) {
    hn::StoreU(LoadOne<Element>(rows, k), d, packed + PackedRow(k, k_count) * kPanel);
  }
}

// Weight rows [0, cols) of `base`, as floats [K][kPanel]. Columns past the last strip stay unset.
template <class Element>
void PackPanel(const std::byte* base, std::int64_t k_count, int cols, float* HWY_RESTRICT packed) {
  const std::int64_t stride = k_count * Element::kBytes;
  for (int c = 0; c < cols; c += kStripLanes) {
    if (cols - c >= kStripLanes) {
      PackStrip<Element>(WholeStrip{base + c * stride, stride}, k_count, packed + c);
    } else {
      PackStrip<Element>(PartialStrip(base + c * stride, stride, cols - c), k_count, packed + c);
    }
  }
}

// Adds the terms from k on, a multiple of four, to the brackets.
template <class Element, int kCount, class Rows>
HWY_INLINE void AddLastTerms(const float* HWY_RESTRICT x, const Rows* strips, std::int64_t k,
                             std::int64_t k_count, StripVec (*sum)[2]) {
  for (; k < k_count; k += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if (k + i >= k_count) break;
#pragma GCC unroll 16
      for (int s = 0; s < kCount; ++s) {
        StripVec& to = sum[s][i / 2];
        to = hn::MulAdd(hn::Set(Strip(), x[k + i]), LoadOne<Element>(strips[s], k + i), to);
      }
    }
  }
}

// out[s] = x . strip s, in the order of product.h.
template <class Element, int kCount, class Rows>
HWY_INLINE void RowTimesStrips(const float* HWY_RESTRICT x, const Rows* strips,
                               std::int64_t k_count, StripVec* out) {
  const Strip d;
  constexpr int kPerWord = kWeightsPerWord<Element>;
  StripVec sum[kCount][2];  // the two brackets of product.h
#pragma GCC unroll 16
  for (int s = 0; s < kCount; ++s) sum[s][0] = sum[s][1] = hn::Zero(d);
  const std::byte* ahead = strips[0].row(0) + kPrefetchBytes;
  std::int64_t k = 0;
  for (; k + kGroup<Element> <= k_count; k += kGroup<Element>) {
#pragma GCC unroll 16
    for (int s = 0; s < kCount; ++s) {
      Prefetch(ahead);
      ahead += kStripLanes * 16;
      StripWord word[4];
      LoadWords(d, strips[s], k * Element::kBytes, word);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        StripVec w[kPerWord];
        Element::Split(d, word[j], w);
#pragma GCC unroll 2
        for (int i = 0; i < kPerWord; ++i) {
          const int at = j * kPerWord + i;
          StripVec& to = sum[s][at / 2 % 2];
          to = hn::MulAdd(hn::Set(d, x[k + at]), w[i], to);
        }
      }
    }
  }
  AddLastTerms<Element, kCount>(x, strips, k, k_count, sum);
#pragma GCC unroll 16
  for (int s = 0; s < kCount; ++s) out[s] = hn::Add(sum[s][0], sum[s][1]);
}

// out[0, cols) = x . weight rows [0, cols) of `base`.
template <class Element>
void RowTimesPanel(const float* HWY_RESTRICT x, const std::byte* base, std::int64_t k_count,
                   int cols, float* HWY_RESTRICT out) {
  const Strip d;
  const std::int64_t stride = k_count * Element::kBytes;
  if (cols == kPanel) {
    WholeStrip strips[kStrips];
    for (int s = 0; s < kStrips; ++s) strips[s] = {base + s * kStripLanes * stride, stride};
    StripVec y[kStrips];
    RowTimesStrips<Element, kStrips>(x, strips, k_count, y);
    for (int s = 0; s < kStrips; ++s) hn::StoreU(y[s], d, out + s * kStripLanes);
    return;
  }
  for (int c = 0; c < cols; c += kStripLanes) {
    StripVec y[1];
    const PartialStrip strip(base + c * stride, stride, cols - c);
    RowTimesStrips<Element, 1>(x, &strip, k_count, y);
    HWY_ALIGN float values[kStripLanes];
    hn::Store(y[0], d, values);
    std::copy_n(values, std::min(cols - c, kStripLanes), out + c);
  }
}

// Bytes that a tile asks for while it multiplies, `step` more per k: the weights of a panel that is
// packed soon. Asked for while packing, they would come in a burst that the memory cannot serve.
struct Ahead {
  const std::byte* at;
  std::int64_t step;
};

// The panel after the one at `base`, or a later one where panels are short.
template <class Element>
HWY_INLINE Ahead NextPanel(const std::byte* base, std::int64_t k_count) {
  const std::int64_t step = kPanel * Element::kBytes;
  return {base + std::max(kPrefetchBytes, k_count * step), step};
}

// Asks for what is in the first cache level anyway.
inline Ahead NothingAhead(const float* packed) {
  return {reinterpret_cast<const std::byte*>(packed), 0};
}

// A register tile: kRows rows of x times kVectors vectors of the panel's columns.
template <int kVectors, int kRows>
struct Tile {
  using V = hn::Vec<Full>;

  // The first `count` terms of a bracket whose first k is x[0].
  static HWY_INLINE void Sum(const float* HWY_RESTRICT packed, std::int64_t count,
                             const float* HWY_RESTRICT x, std::int64_t x_stride, Ahead ahead,
                             V* sum) {
    const Full d;
    V acc[kRows * kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kVectors; ++i) acc[i] = hn::Zero(d);
    for (std::int64_t k = 0, step = 1; k < count; ++k, x += step, step ^= 2) {  // 1, 3, 1, 3, ...
      hwy::Prefetch(ahead.at + k * ahead.step);
      V w[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, packed + k * kPanel + v * kFullLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V value = hn::Set(d, x[r * x_stride]);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
          acc[r * kVectors + v] = hn::MulAdd(value, w[v], acc[r * kVectors + v]);
        }
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kVectors; ++i) sum[i] = acc[i];
  }

  static void Run(const float* HWY_RESTRICT packed, std::int64_t k_count,
                  const float* HWY_RESTRICT x, std::int64_t x_stride, Ahead ahead,
                  float* HWY_RESTRICT out, std::int64_t out_stride) {
    const Full d;
    const std::int64_t firsts = FirstTerms(k_count);
    V first[kRows * kVectors];
    V second[kRows * kVectors];
    Sum(packed, firsts, x, x_stride, ahead, first);
    ahead.at += firsts * ahead.step;
    Sum(packed + firsts * kPanel, k_count - firsts, x + 2, x_stride, ahead, second);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(hn::Add(first[r * kVectors + v], second[r * kVectors + v]), d,
                   out + r * out_stride + v * kFullLanes);
      }
    }
  }
};

// 12 accumulators keep two FMA pipes busy and leave registers for the operands.
inline constexpr int kPanelVectors = kPanel / kFullLanes;
inline constexpr int kTileRows = std::max(1, 12 / kPanelVectors);
// Panels of at most 8 columns use half of the vectors, where there is more than one.
inline constexpr int kHalfVectors = std::max(1, kPanelVectors / 2);

using TileFn = void(const float*, std::int64_t, const float*, std::int64_t, Ahead, float*,
                    std::int64_t);

// Rows of the next tile of `left` rows. Tiles of few rows wait for the latency of their sums, so a
// last whole tile and a small rest become two halves.
inline std::int64_t NextTileRows(std::int64_t left) {
  if (left <= kTileRows) return left;
  return 5 * left <= 8 * kTileRows ? (left + 1) / 2 : kTileRows;
}

template <int kVectors, int... kRows>
HWY_INLINE TileFn* TileForRows(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  static constexpr TileFn* kTiles[] = {&Tile<kVectors, kRows + 1>::Run...};
  return kTiles[rows - 1];
}

// All rows of x times a packed panel; the first tile asks for what is ahead.
inline void RowsTimesPacked(const float* packed, std::int64_t k_count, ConstMatrix x, Ahead ahead,
                            Matrix out) {
  const auto cols = static_cast<int>(out.cols);
  const bool half = cols <= kHalfVectors * kFullLanes;
  const int width = (half ? kHalfVectors : kPanelVectors) * kFullLanes;
  const auto row_choices = std::make_integer_sequence<int, kTileRows>();
  for (std::int64_t t = 0, rows = 0; t < x.rows; t += rows) {
    rows = NextTileRows(x.rows - t);
    TileFn* tile = half ? TileForRows<kHalfVectors>(rows, row_choices)
                        : TileForRows<kPanelVectors>(rows, row_choices);
    if (cols == width) {
      tile(packed, k_count, x.data + t * x.stride, x.stride, ahead, out.data + t * out.stride,
           out.stride);
    } else {
      HWY_ALIGN float whole[kTileRows * kPanel];
      tile(packed, k_count, x.data + t * x.stride, x.stride, ahead, whole, kPanel);
      for (int r = 0; r < rows; ++r) std::copy_n(whole + r * kPanel, cols, out.row(t + r).data());
    }
    ahead = NothingAhead(packed);
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
