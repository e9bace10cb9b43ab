#include "checkpoint/read_floats.h"

#include <cassert>
#include <cstring>

#include "numeric/half.h"

namespace kv8 {
namespace {

/// The i-th element; the data may be unaligned.
template <class T>
T Load(const std::byte* data, std::size_t i) {
  T element;
  std::memcpy(&element, data + i * sizeof(T), sizeof(T));
  return element;
}

float Element(const TensorView& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case DType::kBF16:
      return DecodeBf16(Load<std::uint16_t>(tensor.data, i));
    case DType::kF16:
      return DecodeFp16(Load<std::uint16_t>(tensor.data, i));
    default:
      return Load<float>(tensor.data, i);
  }
}

}  // namespace

std::vector<float> ReadFloats(const TensorView& tensor) {
  assert(IsPlainFloat(tensor.dtype));
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Element(tensor, i);
  return values;
}

}  // namespace kv8
