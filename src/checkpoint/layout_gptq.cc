// The containers of GPTQ, which AutoRound writes too, and of AutoAWQ: codes, zero points and scales
// with inputs as rows. They are turned into rows of outputs, matrix by matrix.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "checkpoint/layouts.h"

namespace kv8 {
namespace {

using enum DType;

constexpr std::array kContainerParts = {
    PartRule{"qweight", {kI32, kI32, kI32}},
    PartRule{"scales", {kF16, kBF16, kF32}},
    PartRule{"qzeros", {kI32, kI32, kI32}},
    PartRule{"g_idx", {kI32, kI32, kI32}, false},
};

/// Field i of an AutoAWQ word is output kAwqOrder[i] of its 8.
constexpr std::array kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

std::int64_t Outputs(const WeightParts& parts) {
  const TensorView& scales = parts.At("scales");
  return scales.shape.size() == 2 ? scales.shape[1] : 0;
}

bool FitsGptq(const WeightParts& parts) {
  const TensorView& codes = parts.At("qweight");
  return codes.shape.size() == 2 && codes.shape[1] == Outputs(parts);
}

bool FitsAwq(const WeightParts& parts) {
  const TensorView& codes = parts.At("qweight");
  return codes.shape.size() == 2 && codes.shape[1] * kFields == Outputs(parts);
}

/// Error unless input i is of group i / group: another order was sorted by activation.
Result<void> CheckOrder(const WeightParts& parts, const Weight& weight) {
  const TensorView* const order = parts.Find("g_idx");
  if (order == nullptr || order->elements() == 0) return {};
  KV8_RETURN_IF_ERROR(RequireShape(parts, "g_idx", std::array{weight.cols}));
  for (std::int64_t i = 0; i < weight.cols; ++i) {
    std::int32_t group = 0;
    std::memcpy(&group, order->data + i * 4, sizeof(group));
    if (group == i / weight.group) continue;
    return parts.Bad("g_idx", Code::kUnsupported,
                     fmt::format("puts input {} into group {}, not {}: act-order (desc_act) GPTQ, "
                                 "which kv8 does not read",
                                 i, group, i / weight.group));
  }
  return {};
}

Result<Weight> DescribeContainer(const WeightParts& parts, std::int64_t rows, std::int64_t cols) {
  for (const std::string_view leaf : {"qweight", "scales", "qzeros"}) {
    KV8_RETURN_IF_ERROR(RequireMatrix(parts, leaf));
  }
  const TensorView& scales = parts.At("scales");
  const std::int64_t groups = scales.shape[0];
  if (rows % kFields != 0) {
    return parts.Bad("qzeros", Code::kMismatch,
                     fmt::format("packs {} outputs, which do not fill words of {}", rows, kFields));
  }
  KV8_RETURN_IF_ERROR(RequireShape(parts, "qzeros", std::array{groups, rows / kFields}));
  Weight weight{.format = WeightFormat::kInt4,
                .rows = rows,
                .cols = cols,
                .scale_format = ScaleFormatOf(scales.dtype)};
  KV8_ASSIGN_OR_RETURN(weight.group, GroupOf(parts, "scales", cols, groups));
  KV8_RETURN_IF_ERROR(CheckOrder(parts, weight));
  return weight;
}

Result<Weight> DescribeGptq(const WeightParts& parts) {
  const TensorView& codes = parts.At("qweight");
  return DescribeContainer(parts, codes.shape[1], codes.shape[0] * kFields);
}

Result<Weight> DescribeAwq(const WeightParts& parts) {
  const TensorView& codes = parts.At("qweight");
  if (codes.shape[0] % kFields != 0) {
    return parts.Bad("qweight", Code::kUnsupported,
                     fmt::format("has {} inputs; kv8 reads multiples of 8", codes.shape[0]));
  }
  return DescribeContainer(parts, codes.shape[1] * kFields, codes.shape[0]);
}

/// Words [rows,cols] of 4 bytes as [cols,rows]; 2 bytes likewise.
template <int kBytes>
void Transpose(const std::byte* from, std::int64_t rows, std::int64_t cols, std::byte* to) {
  constexpr std::int64_t kTile = 16;  // both sides stay in the first cache level
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (std::int64_t c = 0; c < cols; ++c) {
      for (std::int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        std::memcpy(to + (c * rows + r) * kBytes, from + (r * cols + c) * kBytes, kBytes);
      }
    }
  }
}

void TransposeScales(const WeightParts& parts, Weight& weight, WeightCopies& copies) {
  const TensorView& scales = parts.At("scales");
  std::byte* const to = Allocate(scales.bytes(), copies);
  if (SizeOf(scales.dtype) == 4) {
    Transpose<4>(scales.data, scales.shape[0], weight.rows, to);
  } else {
    Transpose<2>(scales.data, scales.shape[0], weight.rows, to);
  }
  weight.scales = to;
}

Result<Weight> LoadGptq(const WeightParts& parts, Weight weight, std::optional<GptqZeros> zeros,
                        WeightCopies& copies) {
  if (!zeros) {
    return parts.Bad("qzeros", Code::kUnsupported,
                     "may hold zero points or those less one, and no quantization_config of kind "
                     "gptq or auto-round says which (checkpoint_format, packing_format)");
  }
  const TensorView& codes = parts.At("qweight");
  std::byte* const to = Allocate(codes.bytes(), copies);
  Transpose<4>(codes.data, codes.shape[0], codes.shape[1], to);
  weight.codes = to;
  TransposeScales(parts, weight, copies);
  const std::byte* const packed = parts.At("qzeros").data;
  const std::int64_t groups = weight.scale_cols();
  std::byte* const points = Allocate(weight.rows * groups, copies);
  for (std::int64_t i = 0; i < weight.rows * groups; ++i) {
    const std::int64_t row = i / groups, word = i % groups * (weight.rows / kFields) + row / 8;
    int zero = NibbleOf(packed + word * 4, static_cast<int>(row % 8));
    if (*zeros == GptqZeros::kLessOne && ++zero > 15) {
      return parts.Bad("qzeros", Code::kUnsupported,
                       fmt::format("holds 15 for output {}: a zero point of 16 or, overflown, of "
                                   "0; programs differ",
                                   row));
    }
    points[i] = static_cast<std::byte>(zero);
  }
  weight.zero_points = points;
  return weight;
}

Result<Weight> LoadAwq(const WeightParts& parts, Weight weight, std::optional<GptqZeros>,
                       WeightCopies& copies) {
  const std::byte* const codes = parts.At("qweight").data;
  const std::byte* const zeros = parts.At("qzeros").data;
  const std::int64_t words = weight.rows / kFields, groups = weight.scale_cols();
  const std::int64_t row_bytes = weight.code_row_bytes();
  std::byte* const to = Allocate(weight.rows * row_bytes, copies);
  std::byte* const points = Allocate(weight.rows * groups, copies);
  for (std::int64_t w = 0; w < words; ++w) {
    for (int field = 0; field < kFields; ++field) {
      const std::int64_t row = w * kFields + kAwqOrder[static_cast<std::size_t>(field)];
      const auto code = [&](std::int64_t col) {
        return NibbleOf(codes + (col * words + w) * 4, field);
      };
      for (std::int64_t i = 0; i < row_bytes; ++i) {
        to[row * row_bytes + i] = static_cast<std::byte>(code(2 * i) | code(2 * i + 1) << 4);
      }
      for (std::int64_t g = 0; g < groups; ++g) {
        points[row * groups + g] = std::byte{NibbleOf(zeros + (g * words + w) * 4, field)};
      }
    }
  }
  weight.codes = to;
  weight.zero_points = points;
  TransposeScales(parts, weight, copies);
  return weight;
}

}  // namespace

const WeightLayout kGptqLayout = {"GPTQ", kContainerParts, FitsGptq, DescribeGptq, LoadGptq};
const WeightLayout kAwqLayout = {"AutoAWQ", kContainerParts, FitsAwq, DescribeAwq, LoadAwq};

}  // namespace kv8
