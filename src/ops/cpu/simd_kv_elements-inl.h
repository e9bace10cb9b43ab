// Vectors of cache elements: the codecs of src/numeric, several elements at a time and bit for bit.
// Included once per instruction set.

#if defined(KV8_OPS_CPU_SIMD_KV_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KV8_OPS_CPU_SIMD_KV_ELEMENTS_INL_H_
#undef KV8_OPS_CPU_SIMD_KV_ELEMENTS_INL_H_
#else
#define KV8_OPS_CPU_SIMD_KV_ELEMENTS_INL_H_
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

/// Lanes(d) FP16 or FP32 elements at `from` (any alignment).
template <KvDType kType, class D>
HWY_INLINE hn::Vec<D> LoadKvElements(D d, const std::byte* from) {
  static_assert(kType != KvDType::kE4M3);
  if constexpr (kType == KvDType::kFp32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(from));
  } else {
    const hn::Rebind<std::uint16_t, D> d16;
    return Fp16ToFloat(d, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
  }
}

/// FP16 codes of 2^-8 times the E4M3 codes at `from`, exactly. E4M3 is FP16 without the low
/// mantissa bits and with a bias that is 8 less: sign and magnitude only move into place. The NaN
/// code alone would look like a number.
template <class D16>
HWY_INLINE hn::Vec<D16> LoadE4M3AsFp16(D16 d16, const std::byte* from) {
  const hn::RebindToSigned<D16> di16;
  const hn::Rebind<std::int8_t, D16> d8;
  const auto code = hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(from));
  const auto moved = hn::ShiftLeft<7>(hn::BitCast(d16, hn::PromoteTo(di16, code)));
  const auto half = hn::And(moved, hn::Set(d16, std::uint16_t{0xBF80}));  // bit 14: another sign
  const auto nan_magnitude = hn::Set(d16, std::uint16_t{0x3F80});
  const auto is_nan = hn::Eq(hn::And(half, nan_magnitude), nan_magnitude);
  return hn::Or(half, hn::IfThenElseZero(is_nan, hn::Set(d16, std::uint16_t{0x7E00})));
}

// E4M3 codes that are decoded together: a vector of 16-bit lanes, where there is one.
constexpr std::int64_t kE4M3Step =
    (HWY_TARGET == HWY_SCALAR ? 1 : 2) *
    static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<float>()));

/// Decodes kE4M3Step codes.
template <class D>
HWY_INLINE void DecodeE4M3Codes(D d, const std::byte* from, float* to) {
  const auto unit = hn::Set(d, 256.0f);
#if HWY_TARGET == HWY_SCALAR
  const hn::Rebind<std::uint16_t, D> d16;
  hn::StoreU(hn::Mul(Fp16ToFloat(d, LoadE4M3AsFp16(d16, from)), unit), d, to);
#else
  const hn::Repartition<std::uint16_t, D> d16;
  const hn::Half<decltype(d16)> half16;
  const auto codes = LoadE4M3AsFp16(d16, from);
  const auto low = Fp16ToFloat(d, hn::LowerHalf(half16, codes));
  const auto high = Fp16ToFloat(d, hn::UpperHalf(half16, codes));
  hn::StoreU(hn::Mul(low, unit), d, to);
  hn::StoreU(hn::Mul(high, unit), d, to + kE4M3Step / 2);
#endif
}

/// Decodes `count` consecutive elements.
template <KvDType kType>
HWY_INLINE void DecodeRun(const std::byte* from, std::int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  std::int64_t i = 0;
  if constexpr (kType == KvDType::kE4M3) {
    for (; i + kE4M3Step <= count; i += kE4M3Step) DecodeE4M3Codes(d, from + i, to + i);
  } else {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(LoadKvElements<kType>(d, from + i * SizeOf(kType)), d, to + i);
    }
  }
  for (; i < count; ++i) to[i] = LoadKvElement(kType, from, i);
}

/// A float format of fewer bits, as rounding to it needs to know it.
struct SmallFloat {
  int shift;                      // mantissa bits that go
  std::uint32_t rebias;           // float bits that shift down to code 0
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
