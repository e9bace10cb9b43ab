#include "checkpoint/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "numeric/e4m3.h"

namespace kv8 {
namespace {

constexpr std::int64_t kBatch = 4096;

template <class Bits>
Bits Load(const std::byte* from, std::int64_t i) {
  Bits bits;
  std::memcpy(&bits, from + i * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
  return bits;
}

/// Of exactly kBatch elements; without an exit and with a known count the loop becomes vectors.
template <class Bits>
bool AnyNonFinite(const std::byte* from, Bits exponent) {
  Bits bad = 0;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    bad |= static_cast<Bits>((Load<Bits>(from, i) & exponent) == exponent);
  }
  return bad != 0;
}

/// An element is NaN or infinite exactly when all its exponent bits are set; of E4M3, which has no
/// infinity, all bits but the sign.
template <class Bits>
std::int64_t FirstNonFinite(const TensorView& tensor, Bits exponent) {
  const std::int64_t count = tensor.elements();
  for (std::int64_t begin = 0; begin < count; begin += kBatch) {
    const std::int64_t end = std::min(begin + kBatch, count);
    const std::byte* const from = tensor.data + begin * static_cast<std::int64_t>(sizeof(Bits));
    if (end - begin == kBatch && !AnyNonFinite<Bits>(from, exponent)) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if ((Load<Bits>(tensor.data, i) & exponent) == exponent) return i;
    }
  }
  return -1;
}

std::int64_t FirstNonFinite(const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kBF16:
      return FirstNonFinite<std::uint16_t>(tensor, 0x7F80);
    case DType::kF16:
      return FirstNonFinite<std::uint16_t>(tensor, 0x7C00);
    case DType::kF32:
      return FirstNonFinite<std::uint32_t>(tensor, 0x7F800000);
    case DType::kF8E4M3:
      return FirstNonFinite<std::uint8_t>(tensor, kE4M3NaNCode);
    default:
      return -1;
  }
}

}  // namespace

Result<void> CheckFinite(const TensorView& tensor, std::string_view name, std::string_view file) {
  const std::int64_t bad = FirstNonFinite(tensor);
  if (bad < 0) return {};
  return Error{Code::kCorrupt,
               fmt::format("element {} of {} {} is NaN or infinite", bad, Name(tensor.dtype),
                           ShapeText(tensor.shape)),
               TensorPlace(file, name), "download or convert the checkpoint again"};
}

}  // namespace kv8
