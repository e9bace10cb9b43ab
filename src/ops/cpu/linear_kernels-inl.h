// Kernels of the matrix product, compiled once per target. docs/kernels/linear.md explains them.
//
// Both work on a panel of up to 16 weight rows (= output columns) and vectorise over those, so that
// an output's sum runs through k in one fixed order and needs no sum across lanes:
//   PackPanel + Tile   many rows of x: the panel becomes floats [K][16] once, then register tiles
//   RowTimesPanel      one row of x: the same transposed vectors, used straight from the registers

#if defined(KV8_OPS_CPU_LINEAR_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_LINEAR_KERNELS_INL_H_
#undef KV8_OPS_CPU_LINEAR_KERNELS_INL_H_
#else
#define KV8_OPS_CPU_LINEAR_KERNELS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "numeric/half.h"
#include "tensor/tensor_view.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kPanel = 16;  // output columns of one panel

using Full = hn::CappedTag<float, 16>;  // vectors of the register tile
using Strip = hn::CappedTag<float, 8>;  // one value of 8 (4, 1) neighbouring weight rows
using StripVec = hn::Vec<Strip>;
inline constexpr int kFullLanes = static_cast<int>(hn::MaxLanes(Full()));
inline constexpr int kStripLanes = static_cast<int>(hn::MaxLanes(Strip()));
inline constexpr int kStrips = kPanel / kStripLanes;

// Rows are transposed as 32-bit words; an Element type knows the weights in a word. Of two 16-bit
// ones, the even k is the low half.
struct Bf16Element {
  static constexpr int kBytes = 2;
  static float Decode(const std::byte* p) {
    std::uint16_t code;
    std::memcpy(&code, p, sizeof code);
    return DecodeBf16(code);
  }
  template <class VU>
  static HWY_INLINE void Split(VU word, StripVec* w) {
    const Strip d;
    const hn::RebindToUnsigned<Strip> du;
    w[0] = hn::BitCast(d, hn::ShiftLeft<16>(word));
    w[1] = hn::BitCast(d, hn::And(word, hn::Set(du, 0xFFFF0000u)));
  }
};

struct F16Element {
  static constexpr int kBytes = 2;
  static float Decode(const std::byte* p) {
    std::uint16_t code;
    std::memcpy(&code, p, sizeof code);
    return DecodeFp16(code);
  }
  // Codes in the low halves of the lanes.
  template <class VU>
  static HWY_INLINE StripVec ToFloat(VU code) {
    const Strip d;
    const hn::RebindToUnsigned<Strip> du;
    const auto magnitude = hn::And(code, hn::Set(du, 0x7FFFu));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(code, magnitude));
    // With the exponent field moved to a float's place only its bias is off by 112; the product
    // also normalises subnormals. Infinities and NaN get the float's largest exponent instead.
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f)));
    const auto special = hn::Or(shifted, hn::Set(du, 0x7F800000u));
    const auto is_special = hn::Gt(hn::BitCast(hn::RebindToSigned<Strip>(), magnitude),
                                   hn::Set(hn::RebindToSigned<Strip>(), 0x7BFF));
    const auto value = hn::IfThenElse(hn::RebindMask(du, is_special), special, finite);
    return hn::BitCast(d, hn::Or(value, sign));
  }
  template <class VU>
  static HWY_INLINE void Split(VU word, StripVec* w) {
    const hn::RebindToUnsigned<Strip> du;
    w[0] = ToFloat(hn::And(word, hn::Set(du, 0xFFFFu)));
    w[1] = ToFloat(hn::ShiftRight<16>(word));
  }
};

struct F32Element {
  static constexpr int kBytes = 4;
  static float Decode(const std::byte* p) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return value;
  }
  template <class VU>
  static HWY_INLINE void Split(VU word, StripVec* w) {
    w[0] = hn::BitCast(Strip(), word);
  }
};

template <class Element>
inline constexpr int kWeightsPerWord = 4 / Element::kBytes;
template <class Element>
inline constexpr int kGroup = 4 * kWeightsPerWord<Element>;  // even, as the order demands

// Where the rows of a strip begin. Whole strips are a base and a stride, which leaves the address
// arithmetic to the load units.
struct WholeStrip {
  const std::byte* base;
  std::int64_t stride;
  const std::byte* row(int i) const { return base + i * stride; }
};
// A strip that the matrix ends in: its last row stands in for the missing ones.
struct PartialStrip {
  const std::byte* rows[kStripLanes];
  PartialStrip(const std::byte* base, std::int64_t stride, std::int64_t count) {
    for (int i = 0; i < kStripLanes; ++i) {
      rows[i] = base + std::min<std::int64_t>(i, count - 1) * stride;
    }
  }
  const std::byte* row(int i) const { return rows[i]; }
};

using StripWord = hn::Vec<hn::RebindToUnsigned<Strip>>;

// word[j] = the j-th of the 4 words from byte `offset` on of the strip's rows.
template <class Rows>
HWY_INLINE void LoadWords(const Rows& rows, std::int64_t offset, StripWord* word) {
  const hn::RebindToUnsigned<Strip> du;
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < 4; ++j) {
    std::uint32_t value;
    std::memcpy(&value, rows.row(0) + offset + 4 * j, sizeof value);
    word[j] = hn::Set(du, value);
  }
#else
  const hn::Full128<std::uint32_t> block;
  const hn::Repartition<std::uint64_t, decltype(du)> du64;
  const auto at = [&](int r) HWY_ATTR {
    return hn::LoadU(block, reinterpret_cast<const std::uint32_t*>(rows.row(r) + offset));
  };
  const auto load = [&](int i) HWY_ATTR {
    if constexpr (kStripLanes == 8) {
      return hn::Combine(du, at(i + 4), at(i));
    } else {
      return at(i);
    }
  };
  const auto r0 = load(0);
  const auto r1 = load(1);
  const auto r2 = load(2);
  const auto r3 = load(3);
  const auto low01 = hn::BitCast(du64, hn::InterleaveLower(du, r0, r1));
  const auto low23 = hn::BitCast(du64, hn::InterleaveLower(du, r2, r3));
  const auto high01 = hn::BitCast(du64, hn::InterleaveUpper(du, r0, r1));
  const auto high23 = hn::BitCast(du64, hn::InterleaveUpper(du, r2, r3));
  word[0] = hn::BitCast(du, hn::InterleaveLower(du64, low01, low23));
  word[1] = hn::BitCast(du, hn::InterleaveUpper(du64, low01, low23));
  word[2] = hn::BitCast(du, hn::InterleaveLower(du64, high01, high23));
  word[3] = hn::BitCast(du, hn::InterleaveUpper(du64, high01, high23));
#endif
}

// w[i] = the i-th weight from byte `offset` on of the strip's rows, kGroup of them.
template <class Element, class Rows>
HWY_INLINE void LoadGroup(Element, const Rows& rows, std::int64_t offset, StripVec* w) {
  StripWord word[4];
  LoadWords(rows, offset, word);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) Element::Split(word[j], w + j * kWeightsPerWord<Element>);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// With a conversion instruction, converting whole rows and transposing 8 x 8 floats takes two
// thirds of the time.
template <class Rows>
HWY_INLINE void LoadGroup(F16Element, const Rows& rows, std::int64_t offset, StripVec* w) {
  const Strip d;
  const hn::Rebind<hwy::float16_t, Strip> codes;
  const hn::RepartitionToWide<Strip> wide;
  const auto at = [&](int i) HWY_ATTR {
    const auto* from = reinterpret_cast<const hwy::float16_t*>(rows.row(i) + offset);
    return hn::PromoteTo(d, hn::LoadU(codes, from));
  };
  StripVec quad[2][4];  // [rows 0..3 | 4..7][i]: four rows' weight i, then their weight i + 4
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const auto r0 = at(4 * half);
    const auto r1 = at(4 * half + 1);
    const auto r2 = at(4 * half + 2);
    const auto r3 = at(4 * half + 3);
    const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
    const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
    const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
    const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
    quad[half][0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
    quad[half][1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
    quad[half][2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
    quad[half][3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    w[i] = hn::ConcatLowerLower(d, quad[1][i], quad[0][i]);
    w[i + 4] = hn::ConcatUpperUpper(d, quad[1][i], quad[0][i]);
  }
}
#endif

// Weight k of the strip's rows, for the k that no whole group covers.
template <class Element, class Rows>
HWY_INLINE StripVec LoadOne(const Rows& rows, std::int64_t k) {
  HWY_ALIGN float values[kStripLanes];
  for (int i = 0; i < kStripLanes; ++i) {
    values[i] = Element::Decode(rows.row(i) + k * Element::kBytes);
  }
  return hn::Load(Strip(), values);
}

// The hardware sees 16 short streams and follows none of them, although the rows lie one after
// another: weights that are not in the first cache arrive in time only when they are asked for.
inline constexpr std::int64_t kPrefetchBytes = 8192;

// The lines of as many bytes as one strip's group holds.
HWY_INLINE void Prefetch(const std::byte* p) {
  hwy::Prefetch(p);
  if constexpr (kStripLanes * 16 > 64) hwy::Prefetch(p + 64);
}

// Rows of the panel where weight k lies: all even k, then all odd k.
HWY_INLINE std::int64_t PackedRow(std::int64_t k, std::int64_t k_count) {
  return (k & 1) * ((k_count + 1) / 2) + k / 2;
}

template <class Element, class Rows>
void PackStrip(const Rows& rows, std::int64_t k_count, float* HWY_RESTRICT packed) {
  const Strip d;
  const std::byte* ahead = rows.row(0) + kPrefetchBytes;
  std::int64_t k = 0;
  for (; k + kGroup<Element> <= k_count; k += kGroup<Element>) {
    Prefetch(ahead);
    ahead += kStripLanes * 16;
    StripVec w[kGroup<Element>];
    LoadGroup(Element(), rows, k * Element::kBytes, w);
    float* to[2] = {packed + PackedRow(k, k_count) * kPanel,
                    packed + PackedRow(k + 1, k_count) * kPanel};
#pragma GCC unroll 8
    for (int i = 0; i < kGroup<Element>; ++i) hn::StoreU(w[i], d, to[i % 2] + i / 2 * kPanel);
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

// out[s] = x . strip s, in the order of product.h.
template <class Element, int kCount, class Rows>
HWY_INLINE void RowTimesStrips(const float* HWY_RESTRICT x, const Rows* strips,
                               std::int64_t k_count, StripVec* out) {
  const Strip d;
  constexpr int kPerWord = kWeightsPerWord<Element>;
  StripVec sum[kCount][2];  // even k, odd k
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
      LoadWords(strips[s], k * Element::kBytes, word);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        StripVec w[kPerWord];
        Element::Split(word[j], w);
#pragma GCC unroll 2
        for (int i = 0; i < kPerWord; ++i) {
          const int at = j * kPerWord + i;
          sum[s][at % 2] = hn::MulAdd(hn::Set(d, x[k + at]), w[i], sum[s][at % 2]);
        }
      }
    }
  }
  for (; k < k_count; k += 2) {
#pragma GCC unroll 16
    for (int s = 0; s < kCount; ++s) {
      sum[s][0] = hn::MulAdd(hn::Set(d, x[k]), LoadOne<Element>(strips[s], k), sum[s][0]);
      if (k + 1 == k_count) continue;
      sum[s][1] = hn::MulAdd(hn::Set(d, x[k + 1]), LoadOne<Element>(strips[s], k + 1), sum[s][1]);
    }
  }
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

// A register tile: kRows rows of x times kVectors vectors of the panel's columns.
template <int kVectors, int kRows>
struct Tile {
  using V = hn::Vec<Full>;

  // sum over `count` k, two apart in x.
  static HWY_INLINE void Sum(const float* HWY_RESTRICT packed, std::int64_t count,
                             const float* HWY_RESTRICT x, std::int64_t x_stride, V* sum) {
    const Full d;
    V acc[kRows * kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows * kVectors; ++i) acc[i] = hn::Zero(d);
    for (std::int64_t k = 0; k < count; ++k) {
      V w[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, packed + k * kPanel + v * kFullLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V value = hn::Set(d, x[r * x_stride + 2 * k]);
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
                  const float* HWY_RESTRICT x, std::int64_t x_stride, float* HWY_RESTRICT out,
                  std::int64_t out_stride) {
    const Full d;
    const std::int64_t evens = (k_count + 1) / 2;
    V even[kRows * kVectors];
    V odd[kRows * kVectors];
    Sum(packed, evens, x, x_stride, even);
    Sum(packed + evens * kPanel, k_count / 2, x + 1, x_stride, odd);
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(hn::Add(even[r * kVectors + v], odd[r * kVectors + v]), d,
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

using TileFn = void(const float*, std::int64_t, const float*, std::int64_t, float*, std::int64_t);

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

// Rows [0, rows) of x times a packed panel.
inline void RowsTimesPacked(const float* packed, std::int64_t k_count, ConstMatrix x, Matrix out) {
  const auto cols = static_cast<int>(out.cols);
  const bool half = cols <= kHalfVectors * kFullLanes;
  const int width = (half ? kHalfVectors : kPanelVectors) * kFullLanes;
  const auto row_choices = std::make_integer_sequence<int, kTileRows>();
  for (std::int64_t t = 0, rows = 0; t < x.rows; t += rows) {
    rows = NextTileRows(x.rows - t);
    TileFn* tile = half ? TileForRows<kHalfVectors>(rows, row_choices)
                        : TileForRows<kPanelVectors>(rows, row_choices);
    if (cols == width) {
      tile(packed, k_count, x.data + t * x.stride, x.stride, out.data + t * out.stride, out.stride);
      continue;
    }
    HWY_ALIGN float whole[kTileRows * kPanel];
    tile(packed, k_count, x.data + t * x.stride, x.stride, whole, kPanel);
    for (int r = 0; r < rows; ++r) std::copy_n(whole + r * kPanel, cols, out.row(t + r).data());
  }
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
