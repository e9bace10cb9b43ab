// Weight codes as numbers, a vector at a time. Included once per instruction set.

#if defined(KV8_OPS_CPU_WEIGHT_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_WEIGHT_CODES_INL_H_
#undef KV8_OPS_CPU_WEIGHT_CODES_INL_H_
#else
#define KV8_OPS_CPU_WEIGHT_CODES_INL_H_
#endif

#include <limits>
#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Each Code type knows the codes in a 32-bit word, the lowest first: Value gives code kAt of every
// lane as the number it stands for, exactly.
template <class D>
using WordsOf = hn::Vec<hn::RebindToUnsigned<D>>;

// E4M3. NaN codes give NaN.
struct Fp8Code {
  static constexpr int kBits = 8;
  static constexpr bool kHasZero = false;
  template <int kAt, class D>
  static HWY_INLINE hn::Vec<D> Value(D d, WordsOf<D> word, hn::Vec<D>) {
    const hn::RebindToUnsigned<D> du;
    const auto code = hn::ShiftLeft<24 - 8 * kAt>(word);
    const auto magnitude = hn::And(hn::ShiftRight<4>(code), hn::Set(du, 0x07F00000u));
    // With the exponent field 120 higher a normal code has its value, and a subnormal one the value
    // of exponent -7 with a leading one: too much, until it is doubled and the one taken off. Which
    // of the two is smaller is right. No step makes a subnormal float, which multiplies slowly.
    const auto normal = hn::BitCast(d, hn::Add(magnitude, hn::Set(du, 120u << 23)));
    const auto subnormal = hn::MulAdd(normal, hn::Set(d, 2.0f), hn::Set(d, -0x1p-6f));
    const auto finite = hn::Min(normal, subnormal);
    const auto nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    const auto value = hn::IfThenElse(hn::Gt(normal, hn::Set(d, 448.0f)), nan, finite);
    return hn::BitCast(d, hn::OrAnd(hn::BitCast(du, value), code, hn::Set(du, 0x80000000u)));
  }
};

// Scales and zero points of a byte each, as the elements of weight_strips-inl.h.
struct E4m3Element {
  static constexpr int kBytes = 1;
  template <class D>
  static HWY_INLINE void Split(D d, WordsOf<D> word, hn::Vec<D>* w) {
    const auto none = hn::Zero(d);
    w[0] = Fp8Code::Value<0>(d, word, none);
    w[1] = Fp8Code::Value<1>(d, word, none);
    w[2] = Fp8Code::Value<2>(d, word, none);
    w[3] = Fp8Code::Value<3>(d, word, none);
  }
};

struct E2M1Code {
  static constexpr int kBits = 4;
  static constexpr bool kHasZero = false;
  template <int kAt, class D>
  static HWY_INLINE hn::Vec<D> Value(D d, WordsOf<D> word, hn::Vec<D>) {
    const hn::RebindToUnsigned<D> du;
    const auto shifted = hn::ShiftRight<4 * kAt>(word);
#if HWY_TARGET == HWY_AVX3
    // The instruction looks at the low four bits of an index alone.
    HWY_ALIGN static constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                    4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                    -2.0f, -3.0f, -4.0f, -6.0f};
    return hn::TableLookupLanes(hn::Load(d, kValues), hn::Indices512<float>{shifted.raw});
#else
    const auto sign = hn::ShiftLeft<28 - 4 * kAt>(word);
#if HWY_TARGET == HWY_AVX2
    // The instruction looks at the low three bits of an index alone.
    HWY_ALIGN static constexpr float kValues[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    const auto value =
        hn::TableLookupLanes(hn::Load(d, kValues), hn::Indices256<float>{shifted.raw});
#else
    // As of E4M3: the smaller of the two is right.
    const auto magnitude = hn::ShiftLeft<22>(hn::And(shifted, hn::Set(du, 7u)));
    const auto normal = hn::BitCast(d, hn::Add(magnitude, hn::Set(du, 126u << 23)));
    const auto value = hn::Min(normal, hn::MulAdd(normal, hn::Set(d, 2.0f), hn::Set(d, -1.0f)));
#endif
    return hn::BitCast(d, hn::OrAnd(hn::BitCast(du, value), sign, hn::Set(du, 0x80000000u)));
#endif
  }
};

// 0 to 15 less the zero point.
struct Int4Code {
  static constexpr int kBits = 4;
  static constexpr bool kHasZero = true;
  // A code in the low bits of this float adds its value.
  static constexpr float kBias = 0x1p23f;
  /// `zero` is the zero point plus kBias.
  template <int kAt, class D>
  static HWY_INLINE hn::Vec<D> Value(D d, WordsOf<D> word, hn::Vec<D> zero) {
    const hn::RebindToUnsigned<D> du;
    const auto shifted = hn::ShiftRight<4 * kAt>(word);
    const auto biased = hn::OrAnd(hn::Set(du, 0x4B000000u), shifted, hn::Set(du, 15u));
    return hn::Sub(hn::BitCast(d, biased), zero);
  }
};

struct ZeroPointElement {
  static constexpr int kBytes = 1;
  // Plus Int4Code::kBias.
  template <class D>
  static HWY_INLINE void Split(D d, WordsOf<D> word, hn::Vec<D>* w) {
    const hn::RebindToUnsigned<D> du;
    const auto biased = [&](WordsOf<D> byte) HWY_ATTR {
      return hn::BitCast(d, hn::OrAnd(hn::Set(du, 0x4B000000u), byte, hn::Set(du, 255u)));
    };
    w[0] = biased(word);
    w[1] = biased(hn::ShiftRight<8>(word));
    w[2] = biased(hn::ShiftRight<16>(word));
    w[3] = biased(hn::ShiftRight<24>(word));
  }
};

// Columns that four words of a row hold.
template <class Code>
inline constexpr int kStep = 128 / Code::kBits;

// w[i] = code i of the word, times the scale.
template <class Code, class D, int... kAt>
HWY_INLINE void SplitWord(D d, WordsOf<D> word, hn::Vec<D> zero, hn::Vec<D> scale, hn::Vec<D>* w,
                          std::integer_sequence<int, kAt...>) {
  ((w[kAt] = hn::Mul(Code::template Value<kAt>(d, word, zero), scale)), ...);
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
