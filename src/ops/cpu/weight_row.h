// Rows of a stored table as floats.
#pragma once

#include <cstring>

#include "numeric/half.h"
#include "tensor/weight.h"

namespace kv8 {

/// out[i] = table[row, i], exactly; table.cols values.
inline void DecodeRow(const Weight& table, std::int64_t row, float* out) {
  const std::byte* p = table.codes + row * table.code_row_bytes();
  if (table.format == WeightFormat::kFp32) {
    std::memcpy(out, p, static_cast<std::size_t>(table.cols) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < table.cols; ++i) {
    std::uint16_t code;
    std::memcpy(&code, p + i * 2, sizeof code);
    out[i] = table.format == WeightFormat::kBf16 ? DecodeBf16(code) : DecodeFp16(code);
  }
}

}  // namespace kv8
