// A matrix of the model as it is stored: one type for every format, on every device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv8 {

/// How the elements of a weight are stored.
enum class WeightFormat : int { kBf16, kFp16, kFp32 };

/// What one format takes. Scales and zero points stand for `group` columns of one row each.
struct WeightFormatSize {
  int code_bits = 0;
  int scale_bits = 0;       // 0: the format has no scales
  int zero_point_bits = 0;  // 0: zero is code 0
};

constexpr WeightFormatSize SizeOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
    case WeightFormat::kFp16:
      return {.code_bits = 16};
    case WeightFormat::kFp32:
      return {.code_bits = 32};
  }
  return {};
}

/// The name in a safetensors header, e.g. "BF16".
constexpr const char* Name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return "BF16";
    case WeightFormat::kFp16:
      return "F16";
    case WeightFormat::kFp32:
      return "F32";
  }
  return "";
}

/// A weight [rows, cols] = [out, in], row after row, in memory that somebody else owns: of the host
/// or of a device, possibly unaligned.
///
///   value[r,c] = (code[r,c] - zero_point[r,c / group]) * scale[r,c / group] * global_scale
///
/// where a format without scales or zero points leaves out what it does not have. Kernels take it
/// as it is, so it is plain data and includes nothing but integers.
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  const std::byte* zero_points = nullptr;
  float global_scale = 1;
  std::int32_t group = 0;  // columns that share a scale; 0 without scales

  /// There is no such matrix. One without memory may still have a size.
  constexpr bool empty() const { return rows == 0; }
  constexpr std::int64_t code_row_bytes() const { return cols * SizeOf(format).code_bits / 8; }
  constexpr std::int64_t scale_row_bytes() const {
    return Groups() * SizeOf(format).scale_bits / 8;
  }
  constexpr std::int64_t zero_point_row_bytes() const {
    return Groups() * SizeOf(format).zero_point_bits / 8;
  }
  /// Of codes, scales and zero points.
  constexpr std::int64_t bytes() const {
    return rows * (code_row_bytes() + scale_row_bytes() + zero_point_row_bytes());
  }
  /// Rows [begin, begin + count): one expert of a stack, one head of a projection.
  constexpr Weight Rows(std::int64_t begin, std::int64_t count) const {
    Weight part = *this;
    part.rows = count;
    if (codes != nullptr) part.codes += begin * code_row_bytes();
    if (scales != nullptr) part.scales += begin * scale_row_bytes();
    if (zero_points != nullptr) part.zero_points += begin * zero_point_row_bytes();
    return part;
  }

 private:
  constexpr std::int64_t Groups() const { return group > 0 ? (cols + group - 1) / group : 0; }
};

}  // namespace kv8
