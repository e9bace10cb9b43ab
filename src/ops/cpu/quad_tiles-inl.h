// Products of a few rows, compiled once per target. docs/kernels/linear.md explains them.
//
// A vector's lanes are rows times the brackets of a sum (product.h), so that both brackets of an
// output are two lanes of one register. Four neighbouring weights of one column, repeated, become
// two vectors {w0, w2} and {w1, w3}, of BF16 without a shuffle; x of several rows is laid out for
// them once.

#if defined(KV8_OPS_CPU_QUAD_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_QUAD_TILES_INL_H_
#undef KV8_OPS_CPU_QUAD_TILES_INL_H_
#else
#define KV8_OPS_CPU_QUAD_TILES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "hwy/highway.h"
#include "ops/cpu/weight_strips-inl.h"
#include "tensor/tensor_view.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows of a vector; none where a vector is one lane.
inline constexpr std::int64_t kVectorRows = kFullLanes / 2;
// A tile is one or two vectors of rows and as many columns as make eight sums: enough to keep two
// FMA pipes busy.
inline constexpr std::int64_t kTileVectors = 2;
inline constexpr int kTileSums = 8;

#if HWY_TARGET != HWY_SCALAR

// Floats of one packed vector of rows.
inline std::int64_t VectorFloats(std::int64_t k_count) {
  return k_count * kVectorRows;
}

inline std::int64_t PackedFloats(ConstMatrix x) {
  return CeilDiv(x.rows, kVectorRows) * VectorFloats(x.cols);
}

// x, vector of rows by vector: [K/4][2][kVectorRows][2] each, of four k the first and third, then
// the second and fourth. The last row stands in for those that fill up the last vector.
inline void PackRows(ConstMatrix x, float* HWY_RESTRICT packed) {
  const hn::FixedTag<float, 4> d;
  for (std::int64_t r = 0; r < RoundUp(x.rows, kVectorRows); r += 2) {
    const float* a = x.row(std::min(r, x.rows - 1)).data();
    const float* b = x.row(std::min(r + 1, x.rows - 1)).data();
    float* to = packed + r / kVectorRows * VectorFloats(x.cols) + r % kVectorRows * 2;
    for (std::int64_t k = 0; k < x.cols; k += 4, to += 2 * kFullLanes) {
      const auto from_a = hn::LoadU(d, a + k);
      const auto from_b = hn::LoadU(d, b + k);
      hn::StoreU(hn::ConcatEven(d, from_b, from_a), d, to);
      hn::StoreU(hn::ConcatOdd(d, from_b, from_a), d, to + kFullLanes);
    }
  }
}

// Where the weights of kColumns columns begin, `stride` bytes apart; the last of the `cols` that
// there are stands in for those that are missing.
template <int kColumns>
struct TileColumns {
  const std::byte* at[kColumns];
  TileColumns(const std::byte* base, std::int64_t stride, std::int64_t cols) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) at[c] = c == 0 ? base : at[c - 1] + (c < cols ? stride : 0);
  }
};

// Adds four k to the sums [kColumns][kVectors]. kLookBack: not the first four, so that a weight
// lies before them.
template <class Element, int kVectors, bool kLookBack>
HWY_INLINE void AddQuad(const float* HWY_RESTRICT x, std::int64_t x_stride,
                        const TileColumns<kTileSums / kVectors>& column, std::int64_t quad,
                        hn::Vec<Full>* sum) {
  const Full d;
  hn::Vec<Full> value[2][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < 2 * kVectors; ++i) {
    value[i % 2][i / 2] = hn::LoadU(d, x + i / 2 * x_stride + (2 * quad + i % 2) * kFullLanes);
  }
#pragma GCC unroll 8
  for (int c = 0; c < kTileSums / kVectors; ++c) {
    const std::byte* at = column.at[c] + quad * 4 * Element::kBytes;
    hn::Vec<Full> weight[2];
    Element::template Quad<kLookBack>(d, at, weight);
#pragma GCC unroll 8
    for (int i = 0; i < 2 * kVectors; ++i) {
      hn::Vec<Full>& to = sum[c * kVectors + i % kVectors];
      to = hn::MulAdd(value[i / kVectors][i % kVectors], weight[i / kVectors], to);
    }
  }
}

// Both brackets of the sums of kVectors vectors of rows and kTileSums / kVectors columns. Asks for
// weights as far ahead as a single row's kernel does.
template <class Element, int kVectors>
HWY_INLINE void QuadTile(const float* HWY_RESTRICT x, const std::byte* base, std::int64_t k_count,
                         std::int64_t cols, float* HWY_RESTRICT sums) {
  constexpr int kStepBytes = kTileSums / kVectors * 4 * Element::kBytes;
  const Full d;
  const std::int64_t x_stride = VectorFloats(k_count);
  const TileColumns<kTileSums / kVectors> column(base, k_count * Element::kBytes, cols);
  hn::Vec<Full> sum[kTileSums];
#pragma GCC unroll 8
  for (int i = 0; i < kTileSums; ++i) sum[i] = hn::Zero(d);
  const std::byte* ahead = base + kPrefetchBytes;
  const std::int64_t quads = k_count / 4;
  std::int64_t quad = 0;
  if constexpr (kVectors == 1) {
    for (; quad < quads; ++quad, ahead += kStepBytes) {
      for (int i = 0; i < kStepBytes; i += 64) hwy::Prefetch(ahead + i);
      AddQuad<Element, 1, false>(x, x_stride, column, quad, sum);
    }
  } else {
    AddQuad<Element, kVectors, false>(x, x_stride, column, quad++, sum);
    for (; quad + 2 <= quads; quad += 2, ahead += 2 * kStepBytes) {
      for (int i = 0; i < 2 * kStepBytes; i += 64) hwy::Prefetch(ahead + i);
      AddQuad<Element, kVectors, true>(x, x_stride, column, quad, sum);
      AddQuad<Element, kVectors, true>(x, x_stride, column, quad + 1, sum);
    }
    if (quad < quads) AddQuad<Element, kVectors, true>(x, x_stride, column, quad, sum);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kTileSums; ++i) hn::StoreU(sum[i], d, sums + i * kFullLanes);
}

// Every four lanes of v to another one of `to`, from column c on.
template <class D>
HWY_INLINE void StoreQuads(D d, hn::Vec<D> v, float* const* to, std::int64_t c) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to[0] + c);
  } else {
    const hn::Half<D> half;
    StoreQuads(half, hn::LowerHalf(half, v), to, c);
    StoreQuads(half, hn::UpperHalf(half, v), to + hn::MaxLanes(half) / 4, c);
  }
}

// Columns c to c + 3 of a vector's rows, from their sums, `stride` floats apart: both brackets are
// added. `to` has the even rows, then the odd.
HWY_INLINE void AddBrackets(const float* HWY_RESTRICT sums, std::int64_t stride, float* const* to,
                            std::int64_t c) {
  const Full d;
  const hn::Repartition<std::uint64_t, Full> wide;
  const auto c0 = hn::Load(d, sums);
  const auto c1 = hn::Load(d, sums + stride);
  const auto c2 = hn::Load(d, sums + 2 * stride);
  const auto c3 = hn::Load(d, sums + 3 * stride);
  // Of a row, the columns 0 and 1 by bracket, then 2 and 3.
  const auto add = [&](auto low, auto high) HWY_ATTR {
    const auto first_two = hn::BitCast(wide, low);
    const auto last_two = hn::BitCast(wide, high);
    return hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, first_two, last_two)),
                   hn::BitCast(d, hn::InterleaveUpper(wide, first_two, last_two)));
  };
  StoreQuads(d, add(hn::InterleaveLower(d, c0, c1), hn::InterleaveLower(d, c2, c3)), to, c);
  StoreQuads(d, add(hn::InterleaveUpper(d, c0, c1), hn::InterleaveUpper(d, c2, c3)),
             to + kVectorRows / 2, c);
}

// out[t, c] of a panel from the sums [kPanel][kVectors].
template <int kVectors>
HWY_INLINE void StoreSums(const float* HWY_RESTRICT sums, Matrix out) {
  constexpr std::int64_t kRows = kVectors * kVectorRows;
  float other[kRows][kPanel];  // rows that are not there, and all rows of a partial panel
  const bool whole = out.cols == kPanel;
  float* rows[kRows];
#pragma GCC unroll 16
  for (std::int64_t t = 0; t < kRows; ++t) {
    rows[t / kVectorRows * kVectorRows + t % 2 * (kVectorRows / 2) + t % kVectorRows / 2] =
        whole && t < out.rows ? out.data + t * out.stride : other[t];
  }
  for (std::int64_t c = 0; c < out.cols; c += 4) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      AddBrackets(sums + (c * kVectors + v) * kFullLanes, kVectors * kFullLanes,
                  rows + v * kVectorRows, c);
    }
  }
  if (whole) return;
  for (std::int64_t t = 0; t < out.rows; ++t) std::copy_n(other[t], out.cols, out.row(t).data());
}

// Weight rows [0, out.cols) at `base` times the packed rows: a panel at a time.
template <class Element, int kVectors>
void PackedRowsTimesPanels(const float* HWY_RESTRICT x, const std::byte* base, std::int64_t k_count,
                           Matrix out) {
  constexpr int kColumns = kTileSums / kVectors;
  HWY_ALIGN float sums[kPanel * kVectors * kFullLanes];
  const std::int64_t stride = k_count * Element::kBytes;
  for (std::int64_t first = 0; first < out.cols; first += kPanel) {
    const std::int64_t cols = std::min(kPanel, out.cols - first);
    for (std::int64_t c = 0; c < cols; c += kColumns) {
      const std::byte* at = base + (first + c) * stride;
      QuadTile<Element, kVectors>(x, at, k_count, cols - c, sums + c * kVectors * kFullLanes);
    }
    StoreSums<kVectors>(sums, out.Cols(first, cols));
  }
}

#endif  // HWY_TARGET

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
