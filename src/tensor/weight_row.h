// Elements and rows of stored weights as floats, one by one: what defines every format.
#pragma once

#include <cstring>

#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/half.h"
#include "tensor/weight.h"

namespace kv8 {

template <class T>
T LoadAs(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

/// Where the scale and the zero point of element [row, col] lie.
inline std::int64_t ScaleIndex(const Weight& w, std::int64_t row, std::int64_t col) {
  return (w.scale_row + row) / w.group_rows * w.scale_cols() + col / w.group;
}

/// Scale of element [row, col] without the global one, exactly; 1 where there is none.
inline float ScaleAt(const Weight& w, std::int64_t row, std::int64_t col) {
  if (w.group == 0) return 1;
  const std::byte* p = w.scales + ScaleIndex(w, row, col) * ScaleBytes(w.scale_format);
  switch (w.scale_format) {
    case ScaleFormat::kNone:
      return 1;
    case ScaleFormat::kE4m3:
      return DecodeE4M3(LoadAs<std::uint8_t>(p));
    case ScaleFormat::kBf16:
      return DecodeBf16(LoadAs<std::uint16_t>(p));
    case ScaleFormat::kFp16:
      return DecodeFp16(LoadAs<std::uint16_t>(p));
    case ScaleFormat::kFp32:
      return LoadAs<float>(p);
  }
  return 1;
}

/// Zero point of element [row, col] of a kInt4 weight.
inline float ZeroPointAt(const Weight& w, std::int64_t row, std::int64_t col) {
  if (w.zero_points == nullptr) return kSymmetricZeroPoint;
  return static_cast<float>(LoadAs<std::uint8_t>(w.zero_points + ScaleIndex(w, row, col)));
}

/// Code of element [row, col] as the number it stands for, less the zero point, exactly.
inline float CodeAt(const Weight& w, std::int64_t row, std::int64_t col) {
  const std::byte* p = w.codes + row * w.code_row_bytes() + col * CodeBits(w.format) / 8;
  const auto nibble = [&] {
    return static_cast<std::uint8_t>(LoadAs<std::uint8_t>(p) >> (col % 2 * 4) & 0xF);
  };
  switch (w.format) {
    case WeightFormat::kBf16:
      return DecodeBf16(LoadAs<std::uint16_t>(p));
    case WeightFormat::kFp16:
      return DecodeFp16(LoadAs<std::uint16_t>(p));
    case WeightFormat::kFp32:
      return LoadAs<float>(p);
    case WeightFormat::kFp8:
      return DecodeE4M3(LoadAs<std::uint8_t>(p));
    case WeightFormat::kNvfp4:
      return DecodeE2M1(nibble());
    case WeightFormat::kInt4:
      return static_cast<float>(nibble()) - ZeroPointAt(w, row, col);
  }
  return 0;
}

/// out[i] = table[row, i], table.cols values: code times scale times global scale, in this order
/// and each product rounded to FP32. What has no scales is exact.
inline void DecodeRow(const Weight& table, std::int64_t row, float* out) {
  if (table.format == WeightFormat::kFp32) {
    std::memcpy(out, table.codes + row * table.code_row_bytes(),
                static_cast<std::size_t>(table.cols) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < table.cols; ++i) {
    out[i] = CodeAt(table, row, i) * ScaleAt(table, row, i) * table.global_scale;
  }
}

}  // namespace kv8
