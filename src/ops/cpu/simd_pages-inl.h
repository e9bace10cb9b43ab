// Vectors of cache elements: the codecs of src/numeric, several elements at a time and bit for bit.
// Included once per instruction set.

#if defined(KV8_OPS_CPU_SIMD_PAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_SIMD_PAGES_INL_H_
#undef KV8_OPS_CPU_SIMD_PAGES_INL_H_
#else
#define KV8_OPS_CPU_SIMD_PAGES_INL_H_
#endif

#include "hwy/highway.h"
#include "ops/cpu/kv_element.h"

HWY_BEFORE_NAMESPACE();
namespace kv8::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// FP16 codes to float, exactly. A signalling NaN may come out quiet.
template <class D, class V16>
HWY_INLINE hn::Vec<D> Fp16ToFloat(D d, V16 codes) {
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // No conversion instruction, and Highway's emulation does not know infinities and NaN.
  const hn::RebindToUnsigned<D> du;
  const auto wide = hn::PromoteTo(du, codes);
  const auto magnitude = hn::And(wide, hn::Set(du, 0x7FFFu));
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f)));
  const auto special = hn::Or(shifted, hn::Set(du, 0x7F800000u));
  const auto is_special = hn::Gt(magnitude, hn::Set(du, 0x7BFFu));
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000u)));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
#else
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::BitCast(d16, codes));
#endif
}

/// Lanes(d) elements at `from` (any alignment).
template <KvDType kType, class D>
HWY_INLINE hn::Vec<D> LoadPage(D d, const std::byte* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (kType == KvDType::kFp32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(from));
  } else if constexpr (kType == KvDType::kFp16) {
    return Fp16ToFloat(d, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
  } else {
    // An E4M3 code is an FP16 code without the low mantissa bits and with a bias that is 8 less:
    // sign and magnitude move into place, the value is 2^8 times the FP16's. Only the NaN code
    // would look like a number.
    const hn::Rebind<std::uint8_t, D> d8;
    const auto code =
        hn::PromoteTo(d16, hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(from)));
    const auto sign = hn::ShiftLeft<8>(hn::And(code, hn::Set(d16, std::uint16_t{0x80})));
    const auto magnitude = hn::ShiftLeft<7>(hn::And(code, hn::Set(d16, std::uint16_t{0x7F})));
    const auto is_nan = hn::Eq(magnitude, hn::Set(d16, std::uint16_t{0x3F80}));
    const auto nan = hn::IfThenElseZero(is_nan, hn::Set(d16, std::uint16_t{0x7E00}));
    const auto half = hn::Or(hn::Or(sign, magnitude), nan);
    return hn::Mul(Fp16ToFloat(d, half), hn::Set(d, 256.0f));
  }
}

/// Decodes `count` consecutive elements.
template <KvDType kType>
HWY_INLINE void DecodeRun(const std::byte* from, std::int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(LoadPage<kType>(d, from + i * SizeOf(kType)), d, to + i);
  }
  for (; i < count; ++i) to[i] = LoadKvElement(kType, from, i);
}

/// What a code with fewer bits needs to know about itself to be made from a float by rounding.
struct SmallFloat {
  int shift;                      // mantissa bits that go
  std::uint32_t rebias;           // float bits of the smallest normal, minus its code's bits
  std::uint32_t smallest_normal;  // float bits
  float subnormal_magic;          // adding it leaves the rounded subnormal code in the low bits
  std::uint32_t overflow;         // float bits from which `largest` is stored
  std::uint32_t largest;          // code of overflow: the maximum or infinity
};

/// Codes of |x|, as 32-bit lanes, without sign and for numbers alone.
template <int kShift, class DU, class V>
HWY_INLINE V RoundMagnitude(DU du, V magnitude, const SmallFloat& format) {
  const hn::RebindToFloat<DU> d;
  const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(du, 1u));
  const auto half = hn::Set(du, (1u << (kShift - 1)) - 1u);
  const auto rounded = hn::Add(hn::Add(magnitude, half), odd);
  const auto normal = hn::ShiftRight<kShift>(hn::Sub(rounded, hn::Set(du, format.rebias)));
  const auto magic = hn::Set(d, format.subnormal_magic);
  const auto subnormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), magic)), hn::BitCast(du, magic));
  const auto code =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, format.smallest_normal)), subnormal, normal);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, format.overflow)), code,
                        hn::Set(du, format.largest));
}

/// Stores EncodeE4M3 of every lane.
template <class D>
HWY_INLINE void StoreE4M3(D, hn::Vec<D> x, std::byte* to) {
  constexpr SmallFloat kFormat{20,      0x3C000000u, 0x3C800000u,
                               0x1p14f, 0x43E00000u, std::uint32_t{kE4M3MaxCode}};
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto bits = hn::BitCast(du, x);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const auto sign = hn::ShiftRight<24>(hn::AndNot(hn::Set(du, 0x7FFFFFFFu), bits));
  const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000u));
  const auto code = hn::IfThenElse(is_nan, hn::Set(du, std::uint32_t{kE4M3NaNCode}),
                                   RoundMagnitude<kFormat.shift>(du, magnitude, kFormat));
  hn::StoreU(hn::U8FromU32(hn::Or(sign, code)), d8, reinterpret_cast<std::uint8_t*>(to));
}

/// Stores EncodeFp16 of every lane.
template <class D>
HWY_INLINE void StoreFp16(D, hn::Vec<D> x, std::byte* to) {
  constexpr SmallFloat kFormat{13, 0x38000000u, 0x38800000u, 0.5f, 0x477FF000u, 0x7C00u};
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::BitCast(du, x);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const auto sign = hn::ShiftRight<16>(hn::AndNot(hn::Set(du, 0x7FFFFFFFu), bits));
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3FFu));
  const auto nan = hn::Or(payload, hn::Set(du, 0x7E00u));
  const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000u));
  const auto code =
      hn::IfThenElse(is_nan, nan, RoundMagnitude<kFormat.shift>(du, magnitude, kFormat));
  const auto narrow = hn::DemoteTo(d16, hn::BitCast(di, hn::Or(sign, code)));
  hn::StoreU(narrow, d16, reinterpret_cast<std::uint16_t*>(to));
}

}  // namespace kv8::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
