// Rows of a stored table as floats.
#pragma once

#include <cstring>

#include "numeric/half.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// out[i] = table[row, i], exactly; table.cols values.
inline void DecodeRow(const WeightView& table, std::int64_t row, float* out) {
  const std::byte* p = table.data + row * table.cols * SizeOf(table.dtype);
  if (table.dtype == DType::kF32) {
    std::memcpy(out, p, static_cast<std::size_t>(table.cols) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < table.cols; ++i) {
    std::uint16_t code;
    std::memcpy(&code, p + i * 2, sizeof code);
    out[i] = table.dtype == DType::kBF16 ? DecodeBf16(code) : DecodeFp16(code);
  }
}

}  // namespace kv8
