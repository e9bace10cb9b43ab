#include "checkpoint/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "numeric/e4m3.h"

namespace kv8 {
namespace {

/// An element is NaN or infinite exactly when all its exponent bits are set; of E4M3, which has no
/// infinity, all bits but the sign.
template <class Bits>
std::int64_t FirstNonFinite(const TensorView& tensor, Bits exponent) {
  constexpr std::int64_t kBatch = 4096;  // the inner loop has no exit, so that it vectorises
  const std::int64_t count = tensor.elements();
  const auto load = [&](std::int64_t i) {
    Bits bits;
    std::memcpy(&bits, tensor.data + i * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
    return bits;
  };
  for (std::int64_t begin = 0; begin < count; begin += kBatch) {
    const std::int64_t end = std::min(begin + kBatch, count);
    std::uint32_t bad = 0;
    for (std::int64_t i = begin; i < end; ++i) bad |= (load(i) & exponent) == exponent;
    if (bad == 0) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if ((load(i) & exponent) == exponent) return i;
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
