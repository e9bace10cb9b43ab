// A matrix of the model as it is stored: one type for every format, on every device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kv8 {

/// How the elements of a weight are stored. Plain formats are numbers; the others are codes:
///   kFp8    E4M3
///   kNvfp4  E2M1, two in a byte, the low half first
///   kInt4   0 to 15, two in a byte, the low half first; zero is the zero point
enum class WeightFormat : int { kBf16, kFp16, kFp32, kFp8, kNvfp4, kInt4 };

/// How the scales of a weight are stored.
enum class ScaleFormat : int { kNone, kE4m3, kBf16, kFp16, kFp32 };

constexpr bool IsPlain(WeightFormat format) {
  return format == WeightFormat::kBf16 || format == WeightFormat::kFp16 ||
         format == WeightFormat::kFp32;
}

constexpr int CodeBits(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
    case WeightFormat::kFp16:
      return 16;
    case WeightFormat::kFp32:
      return 32;
    case WeightFormat::kFp8:
      return 8;
    case WeightFormat::kNvfp4:
    case WeightFormat::kInt4:
      return 4;
  }
  return 0;
}

constexpr int ScaleBytes(ScaleFormat format) {
  switch (format) {
    case ScaleFormat::kNone:
      return 0;
    case ScaleFormat::kE4m3:
      return 1;
    case ScaleFormat::kBf16:
    case ScaleFormat::kFp16:
      return 2;
    case ScaleFormat::kFp32:
      return 4;
  }
  return 0;
}

/// The name for messages: of plain formats the one in a safetensors header, e.g. "BF16".
constexpr const char* Name(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return "BF16";
    case WeightFormat::kFp16:
      return "F16";
    case WeightFormat::kFp32:
      return "F32";
    case WeightFormat::kFp8:
      return "FP8";
    case WeightFormat::kNvfp4:
      return "NVFP4";
    case WeightFormat::kInt4:
      return "INT4";
  }
  return "";
}

/// Rows and columns that share a scale in FP8 matrices of public checkpoints.
inline constexpr int kFp8BlockSide = 128;
/// Columns that share a scale in kNvfp4.
inline constexpr int kNvfp4Group = 16;

/// Zero points of a kInt4 weight that stores none.
inline constexpr int kSymmetricZeroPoint = 8;

/// A weight [rows, cols] = [out, in], row after row, in memory that somebody else owns: of the host
/// or of a device, possibly unaligned.
///
///   value[r,c] = (code[r,c] - zero_point[i,j]) * scale[i,j] * global_scale
///   i = (scale_row + r) / group_rows,  j = c / group
///
/// where a format without scales or zero points leaves out what it does not have. Scales and zero
/// points [ceil(rows / group_rows), ceil(cols / group)] lie row after row; the last group of either
/// kind may be short. Kernels take it as it is, so it is plain data and includes nothing but
/// integers.
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;
  const std::byte* zero_points = nullptr;  // one byte each; none: kSymmetricZeroPoint
  float global_scale = 1;
  std::int32_t group = 0;       // columns that share a scale; 0 without scales
  std::int32_t group_rows = 1;  // rows that share a scale
  std::int32_t scale_row = 0;   // row 0 is this row of its group: not 0 in slices alone
  ScaleFormat scale_format = ScaleFormat::kNone;

  /// There is no such matrix. One without memory may still have a size.
  constexpr bool empty() const { return rows == 0; }
  constexpr std::int64_t code_row_bytes() const { return (cols * CodeBits(format) + 7) / 8; }
  constexpr std::int64_t scale_cols() const { return group > 0 ? (cols + group - 1) / group : 0; }
  constexpr std::int64_t scale_rows() const {
    return group > 0 ? (scale_row + rows + group_rows - 1) / group_rows : 0;
  }
  /// Of one row of scales, and of one of zero points.
  constexpr std::int64_t scale_row_bytes() const { return scale_cols() * ScaleBytes(scale_format); }
  constexpr std::int64_t zero_point_row_bytes() const {
    return zero_points != nullptr ? scale_cols() : 0;
  }
  /// Of codes, scales and zero points.
  constexpr std::int64_t bytes() const {
    return rows * code_row_bytes() + scale_rows() * (scale_row_bytes() + zero_point_row_bytes());
  }
  /// Rows [begin, begin + count): one expert of a stack, one head of a projection.
  constexpr Weight Rows(std::int64_t begin, std::int64_t count) const {
    Weight part = *this;
    part.rows = count;
    if (codes != nullptr) part.codes += begin * code_row_bytes();
    const std::int64_t scale_begin = (scale_row + begin) / group_rows;
    part.scale_row = static_cast<std::int32_t>((scale_row + begin) % group_rows);
    if (scales != nullptr) part.scales += scale_begin * scale_row_bytes();
    if (zero_points != nullptr) part.zero_points += scale_begin * zero_point_row_bytes();
    return part;
  }
};

}  // namespace kv8
