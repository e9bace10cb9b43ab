// compressed-tensors pack-quantized: codes 0 to 15 along the columns as Weight has them, zero
// points packed along the rows.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/checked.h"
#include "checkpoint/layouts.h"

namespace kv8 {
namespace {

using enum DType;

constexpr std::array kInt4Parts = {
    PartRule{"weight_packed", {kI32, kI32, kI32}},
    PartRule{"weight_scale", {kBF16, kF16, kF32}},
    PartRule{"weight_shape", {kI64, kI64, kI32}},
    PartRule{"weight_zero_point", {kI32, kI32, kI32}, false},
};

/// Error unless weight_shape says [rows, cols].
Result<void> CheckStatedShape(const WeightParts& parts, std::int64_t rows, std::int64_t cols) {
  KV8_RETURN_IF_ERROR(RequireShape(parts, "weight_shape", std::array{std::int64_t{2}}));
  const TensorView& view = parts.At("weight_shape");
  std::array<std::int64_t, 2> stated{};
  for (std::size_t i = 0; i < 2; ++i) {
    if (view.dtype == DType::kI64) {
      std::memcpy(&stated[i], view.data + i * sizeof(std::int64_t), sizeof(std::int64_t));
    } else {
      std::int32_t value = 0;
      std::memcpy(&value, view.data + i * sizeof(value), sizeof(value));
      stated[i] = value;
    }
  }
  if (stated == std::array{rows, cols}) return {};
  return parts.Bad("weight_shape", Code::kMismatch,
                   fmt::format("says {}, weight_packed holds {}", ShapeText(stated),
                               ShapeText(std::array{rows, cols})));
}

Result<Weight> DescribeInt4(const WeightParts& parts) {
  KV8_RETURN_IF_ERROR(RequireMatrix(parts, "weight_packed"));
  KV8_RETURN_IF_ERROR(RequireMatrix(parts, "weight_scale"));
  const TensorView& codes = parts.At("weight_packed");
  const TensorView& scales = parts.At("weight_scale");
  const std::int64_t rows = codes.shape[0], cols = kFields * codes.shape[1];
  const std::int64_t groups = scales.shape[1];
  KV8_RETURN_IF_ERROR(CheckStatedShape(parts, rows, cols));
  KV8_RETURN_IF_ERROR(RequireShape(parts, "weight_scale", std::array{rows, groups}));
  if (parts.Find("weight_zero_point") != nullptr) {
    KV8_RETURN_IF_ERROR(
        RequireShape(parts, "weight_zero_point", std::array{CeilDiv(rows, kFields), groups}));
  }
  Weight weight{.format = WeightFormat::kInt4,
                .rows = rows,
                .cols = cols,
                .codes = codes.data,
                .scales = scales.data,
                .scale_format = ScaleFormatOf(scales.dtype)};
  KV8_ASSIGN_OR_RETURN(weight.group, GroupOf(parts, "weight_scale", cols, groups));
  return weight;
}

Result<Weight> LoadInt4(const WeightParts& parts, Weight described, std::optional<GptqZeros>,
                        WeightCopies& copies) {
  const TensorView* const packed = parts.Find("weight_zero_point");
  if (packed == nullptr) return described;
  const std::int64_t groups = described.scale_cols();
  described.zero_points =
      CopyZeroPoints(described, copies, [&](std::int64_t row, std::int64_t group) {
        const std::byte* const word = packed->data + (row / kFields * groups + group) * 4;
        return NibbleOf(word, static_cast<int>(row % kFields));
      });
  return described;
}

}  // namespace

const WeightLayout kCompressedInt4Layout = {"compressed-tensors INT4", kInt4Parts, nullptr,
                                            DescribeInt4, LoadInt4};

}  // namespace kv8
