// Stored weights as vectors over neighbouring rows: what the kernels of the matrix product read. A
// strip is as many rows as a vector has lanes, a panel is kPanel rows. Included once per
// instruction set.

#if defined(KV8_OPS_CPU_WEIGHT_STRIPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_WEIGHT_STRIPS_INL_H_
#undef KV8_OPS_CPU_WEIGHT_STRIPS_INL_H_
#else
#define KV8_OPS_CPU_WEIGHT_STRIPS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "numeric/half.h"

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
// ones, the even k is the low half. Its Quad makes two vectors of the four weights from p on, whose
// lanes are {w0, w2} and {w1, w3} in turn; with kLookBack it may read the weight before p as well.
template <class Word>
HWY_INLINE Word LoadWord(const std::byte* p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

#if HWY_TARGET != HWY_SCALAR
// The two 32-bit words from p on in turn, in all lanes.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RepeatTwoWords(D, const std::byte* p) {
  const hn::Repartition<std::uint64_t, D> words;
  return hn::BitCast(hn::RebindToUnsigned<D>(), hn::Set(words, LoadWord<std::uint64_t>(p)));
}
#endif

struct Bf16Element {
  static constexpr int kBytes = 2;
  static float Decode(const std::byte* p) {
    std::uint16_t code;
    std::memcpy(&code, p, sizeof code);
    return DecodeBf16(code);
  }
  template <class D, class VU>
  static HWY_INLINE void Split(D d, VU word, hn::Vec<D>* w) {
    const hn::RebindToUnsigned<D> du;
    w[0] = hn::BitCast(d, hn::ShiftLeft<16>(word));
    w[1] = hn::BitCast(d, hn::And(word, hn::Set(du, 0xFFFF0000u)));
  }
#if HWY_TARGET != HWY_SCALAR
  // A mask runs on more of Zen 3's pipes than a shift; a tile of one vector is faster with the
  // shift all the same.
  template <bool kLookBack, class D>
  static HWY_INLINE void Quad(D d, const std::byte* p, hn::Vec<D>* w) {
    Split(d, RepeatTwoWords(d, p), w);
    if constexpr (kLookBack) {
      const auto mask = hn::Set(hn::RebindToUnsigned<D>(), 0xFFFF0000u);
      w[0] = hn::BitCast(d, hn::And(RepeatTwoWords(d, p - 2), mask));
    }
  }
#endif
};

struct F16Element {
  static constexpr int kBytes = 2;
  static float Decode(const std::byte* p) {
    std::uint16_t code;
    std::memcpy(&code, p, sizeof code);
    return DecodeFp16(code);
  }
  // Codes in the low halves of the lanes.
  template <class D, class VU>
  static HWY_INLINE hn::Vec<D> ToFloat(D d, VU code) {
    const hn::RebindToUnsigned<D> du;
    const auto magnitude = hn::And(code, hn::Set(du, 0x7FFFu));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(code, magnitude));
    // With the exponent field moved to a float's place only its bias is off by 112; the product
    // also normalises subnormals. Infinities and NaN get the float's largest exponent instead.
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f)));
    const auto special = hn::Or(shifted, hn::Set(du, 0x7F800000u));
    const auto is_special = hn::Gt(hn::BitCast(hn::RebindToSigned<D>(), magnitude),
                                   hn::Set(hn::RebindToSigned<D>(), 0x7BFF));
    const auto value = hn::IfThenElse(hn::RebindMask(du, is_special), special, finite);
    return hn::BitCast(d, hn::Or(value, sign));
  }
  template <class D, class VU>
  static HWY_INLINE void Split(D d, VU word, hn::Vec<D>* w) {
    const hn::RebindToUnsigned<D> du;
    w[0] = ToFloat(d, hn::And(word, hn::Set(du, 0xFFFFu)));
    w[1] = ToFloat(d, hn::ShiftRight<16>(word));
  }
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  template <bool kLookBack, class D>
  static HWY_INLINE void Quad(D d, const std::byte* p, hn::Vec<D>* w) {
    HWY_ALIGN static constexpr std::uint8_t kBytesOfLanes[2][16] = {
        {0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5, 0, 1, 4, 5},
        {2, 3, 6, 7, 2, 3, 6, 7, 2, 3, 6, 7, 2, 3, 6, 7}};
    const hn::Rebind<hwy::float16_t, D> codes;
    const hn::Repartition<std::uint8_t, decltype(codes)> bytes;
    const hn::Repartition<std::uint64_t, decltype(codes)> words;
    const auto quad = hn::BitCast(bytes, hn::Set(words, LoadWord<std::uint64_t>(p)));
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const auto picked = hn::TableLookupBytes(quad, hn::LoadDup128(bytes, kBytesOfLanes[i]));
      w[i] = hn::PromoteTo(d, hn::BitCast(codes, picked));
    }
  }
#elif HWY_TARGET != HWY_SCALAR
  template <bool kLookBack, class D>
  static HWY_INLINE void Quad(D d, const std::byte* p, hn::Vec<D>* w) {
    Split(d, RepeatTwoWords(d, p), w);
  }
#endif
};

struct F32Element {
  static constexpr int kBytes = 4;
  static float Decode(const std::byte* p) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return value;
  }
  template <class D, class VU>
  static HWY_INLINE void Split(D d, VU word, hn::Vec<D>* w) {
    w[0] = hn::BitCast(d, word);
  }
#if HWY_TARGET != HWY_SCALAR
  template <bool kLookBack, class D>
  static HWY_INLINE void Quad(D d, const std::byte* p, hn::Vec<D>* w) {
    const auto first = hn::BitCast(d, RepeatTwoWords(d, p));       // w0, w1 in turn
    const auto second = hn::BitCast(d, RepeatTwoWords(d, p + 8));  // w2, w3
    w[0] = hn::OddEven(hn::DupEven(second), first);
    w[1] = hn::OddEven(second, hn::DupOdd(first));
  }
#endif
};

template <class Element>
inline constexpr int kWeightsPerWord = 4 / Element::kBytes;
template <class Element>
inline constexpr int kGroup = 4 * kWeightsPerWord<Element>;  // of four, as the order demands

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

// word[j] = the j-th of the 4 words from byte `offset` on of as many rows as D has lanes.
template <class D, class Rows>
HWY_INLINE void LoadWords(D, const Rows& rows, std::int64_t offset,
                          hn::Vec<hn::RebindToUnsigned<D>>* word) {
  const hn::RebindToUnsigned<D> du;
#if HWY_TARGET == HWY_SCALAR
  for (int j = 0; j < 4; ++j) {
    std::uint32_t value;
    std::memcpy(&value, rows.row(0) + offset + 4 * j, sizeof value);
    word[j] = hn::Set(du, value);
  }
#else
  const hn::Full128<std::uint32_t> quad;
  const hn::Repartition<std::uint64_t, decltype(du)> du64;
  const auto at = [&](int r) HWY_ATTR {
    return hn::LoadU(quad, reinterpret_cast<const std::uint32_t*>(rows.row(r) + offset));
  };
  const auto load = [&](int i) HWY_ATTR {
    if constexpr (hn::MaxLanes(du) == 16) {
      const hn::Half<decltype(du)> half;
      return hn::Combine(du, hn::Combine(half, at(i + 12), at(i + 8)),
                         hn::Combine(half, at(i + 4), at(i)));
    } else if constexpr (hn::MaxLanes(du) == 8) {
      return hn::Combine(du, at(i + 4), at(i));
    } else {
      return at(i);
    }
  };
  const auto r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
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
  LoadWords(Strip(), rows, offset, word);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) Element::Split(Strip(), word[j], w + j * kWeightsPerWord<Element>);
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

// The hardware does not prefetch 16 short streams, although the rows lie one after another: weights
// outside the first cache must be prefetched here to arrive in time.
inline constexpr std::int64_t kPrefetchBytes = 8192;

// The lines of as many bytes as one strip's group holds.
HWY_INLINE void Prefetch(const std::byte* p) {
  hwy::Prefetch(p);
  if constexpr (kStripLanes * 16 > 64) hwy::Prefetch(p + 64);
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
