// Products of a few rows, compiled once per target. docs/kernels/linear.md explains them.
//
// A vector's lanes are rows times the parity of k: x of several rows is laid out so once, and two
// neighbouring weights of one column, repeated, are the other operand. So weights are used as they
// lie, and an output's even and odd bracket (product.h) are two lanes of one register.

#if defined(KV8_OPS_CPU_PAIR_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_PAIR_TILES_INL_H_
#undef KV8_OPS_CPU_PAIR_TILES_INL_H_
#else
#define KV8_OPS_CPU_PAIR_TILES_INL_H_
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

// x[t, k..k+1] for even k, vector of rows by vector: [K/2][kVectorRows][2] each. The last row
// stands in for those that fill up the last vector.
inline void PackRows(ConstMatrix x, float* HWY_RESTRICT packed) {
  const hn::FixedTag<std::uint64_t, 2> d;
  for (std::int64_t r = 0; r < RoundUp(x.rows, kVectorRows); r += 2) {
    const float* a = x.row(std::min(r, x.rows - 1)).data();
    const float* b = x.row(std::min(r + 1, x.rows - 1)).data();
    float* to = packed + r / kVectorRows * VectorFloats(x.cols) + r % kVectorRows * 2;
    std::int64_t k = 0;
    for (; k + 4 <= x.cols; k += 4, to += 2 * kFullLanes) {
      const auto from_a = hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(a + k));
      const auto from_b = hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(b + k));
      const auto first = hn::InterleaveLower(d, from_a, from_b);
      const auto second = hn::InterleaveUpper(d, from_a, from_b);
      hn::StoreU(first, d, reinterpret_cast<std::uint64_t*>(to));
      hn::StoreU(second, d, reinterpret_cast<std::uint64_t*>(to + kFullLanes));
    }
    if (k == x.cols) continue;
    std::copy_n(a + k, 2, to);
    std::copy_n(b + k, 2, to + 2);
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

// Both brackets of the sums of kVectors vectors of rows and kTileSums / kVectors columns. Asks for
// weights as far ahead as a single row's kernel does.
template <class Element, int kVectors>
HWY_INLINE void PairTile(const float* HWY_RESTRICT x, const std::byte* base, std::int64_t k_count,
                         std::int64_t cols, float* HWY_RESTRICT sums) {
  constexpr int kColumns = kTileSums / kVectors;
  constexpr int kPairBytes = 2 * Element::kBytes;
  const Full d;
  const std::int64_t x_stride = VectorFloats(k_count);
  const TileColumns<kColumns> column(base, k_count * Element::kBytes, cols);
  hn::Vec<Full> sum[kTileSums];
#pragma GCC unroll 8
  for (int i = 0; i < kTileSums; ++i) sum[i] = hn::Zero(d);
  const auto step = [&](std::int64_t pair) HWY_ATTR {
    hn::Vec<Full> value[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      value[v] = hn::LoadU(d, x + v * x_stride + pair * kFullLanes);
    }
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const auto weight = Element::Pair(d, column.at[c] + pair * kPairBytes);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        hn::Vec<Full>& to = sum[c * kVectors + v];
        to = hn::MulAdd(value[v], weight, to);
      }
    }
  };
  const std::byte* ahead = base + kPrefetchBytes;
  std::int64_t pair = 0;
  for (; pair + 4 <= k_count / 2; pair += 4, ahead += 4 * kColumns * kPairBytes) {
    for (int i = 0; i < 4 * kColumns * kPairBytes; i += 64) hwy::Prefetch(ahead + i);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) step(pair + i);
  }
  for (; pair < k_count / 2; ++pair) step(pair);
#pragma GCC unroll 8
  for (int i = 0; i < kTileSums; ++i) hn::StoreU(sum[i], d, sums + i * kFullLanes);
}

// out[t, c] = even + odd bracket, from sums [kPanel][row_lanes]: rows of two lanes each.
inline void AddBrackets(const float* HWY_RESTRICT sums, std::int64_t row_lanes, Matrix out) {
  const hn::FixedTag<float, 4> d;
  for (std::int64_t c = 0; c < out.cols; c += 4) {
    for (std::int64_t t = 0; t < out.rows; t += 2) {
      const float* from = sums + c * row_lanes + 2 * t;
      const auto add = [&](const float* a, const float* b) HWY_ATTR {  // {a0, a1, b0, b1}
        const auto va = hn::LoadU(d, a);
        const auto vb = hn::LoadU(d, b);
        return hn::Add(hn::ConcatEven(d, vb, va), hn::ConcatOdd(d, vb, va));
      };
      const auto ab = add(from, from + row_lanes);
      const auto ce = add(from + 2 * row_lanes, from + 3 * row_lanes);
      HWY_ALIGN float rows[2][4];
      const bool whole = c + 4 <= out.cols;
      hn::StoreU(hn::ConcatEven(d, ce, ab), d, whole ? out.row(t).data() + c : rows[0]);
      const bool second = t + 1 < out.rows;
      hn::StoreU(hn::ConcatOdd(d, ce, ab), d,
                 whole && second ? out.row(t + 1).data() + c : rows[1]);
      if (whole) continue;
      for (std::int64_t i = 0; i < (second ? 2 : 1); ++i) {
        std::copy_n(rows[i], out.cols - c, out.row(t + i).data() + c);
      }
    }
  }
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
      PairTile<Element, kVectors>(x, at, k_count, cols - c, sums + c * kVectors * kFullLanes);
    }
    AddBrackets(sums, kVectors * kFullLanes, out.Cols(first, cols));
  }
}

#endif  // HWY_TARGET

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
