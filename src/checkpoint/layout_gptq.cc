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

/// Output i of 8 is field kAwqField[i] of an AutoAWQ word.
constexpr std::array kAwqField = {0, 4, 1, 5, 2, 6, 3, 7};

int AwqField(std::int64_t row) {
  return kAwqField[static_cast<std::size_t>(row % kFields)];
}

int GptqField(std::int64_t row) {
  return static_cast<int>(row % kFields);
}

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

/// The zero point of output `row`, as qzeros stores it.
std::uint8_t StoredZero(const std::byte* qzeros, const Weight& weight, std::int64_t row,
                        std::int64_t group, int field) {
  const std::int64_t word = group * (weight.rows / kFields) + row / kFields;
  return NibbleOf(qzeros + word * 4, field);
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
  const std::byte* const qzeros = parts.At("qzeros").data;
  std::optional<std::int64_t> overflown;
  weight.zero_points = CopyZeroPoints(weight, copies, [&](std::int64_t row, std::int64_t group) {
    const int added = *zeros == GptqZeros::kLessOne ? 1 : 0;
    const int zero = StoredZero(qzeros, weight, row, group, GptqField(row)) + added;
    if (zero > 15 && !overflown) overflown = row;
    return static_cast<std::uint8_t>(zero);
  });
  if (!overflown) return weight;
  return parts.Bad("qzeros", Code::kUnsupported,
                   fmt::format("holds 15 for output {}: a zero point of 16 or, overflown, of 0; "
                               "programs differ",
                               *overflown));
}

Result<Weight> LoadAwq(const WeightParts& parts, Weight weight, std::optional<GptqZeros>,
                       WeightCopies& copies) {
  const std::byte* const codes = parts.At("qweight").data;
  const std::byte* const qzeros = parts.At("qzeros").data;
  const std::int64_t words = weight.rows / kFields, row_bytes = weight.code_row_bytes();
  std::byte* const to = Allocate(weight.rows * row_bytes, copies);
  for (std::int64_t row = 0; row < weight.rows; ++row) {
    const auto code = [&](std::int64_t col) {
      return NibbleOf(codes + (col * words + row / kFields) * 4, AwqField(row));
    };
    for (std::int64_t i = 0; i < row_bytes; ++i) {
      to[row * row_bytes + i] = static_cast<std::byte>(code(2 * i) | code(2 * i + 1) << 4);
    }
  }
  weight.codes = to;
  weight.zero_points = CopyZeroPoints(weight, copies, [&](std::int64_t row, std::int64_t group) {
    return StoredZero(qzeros, weight, row, group, AwqField(row));
  });
  TransposeScales(parts, weight, copies);
  return weight;
}

}  // namespace

const WeightLayout kGptqLayout = {"GPTQ", kContainerParts, FitsGptq, DescribeGptq, LoadGptq};
const WeightLayout kAwqLayout = {"AutoAWQ", kContainerParts, FitsAwq, DescribeAwq, LoadAwq};

}  // namespace kv8
