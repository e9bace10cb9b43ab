// E2M1 codes with an E4M3 scale for 16 columns and one FP32 scale, which ModelOpt multiplies by
// and compressed-tensors divides by.
#include <fmt/format.h>

#include <array>

#include "checkpoint/layouts.h"

namespace kv8 {
namespace {

using enum DType;

constexpr std::array kModelOptParts = {
    PartRule{"weight", {kU8, kU8, kU8}},
    PartRule{"weight_scale", {kF8E4M3, kF8E4M3, kF8E4M3}},
    PartRule{"weight_scale_2", {kF32, kF32, kF32}},
    PartRule{"input_scale", {kF32, kBF16, kF16}, false},
};
constexpr std::array kCompressedParts = {
    PartRule{"weight_packed", {kU8, kU8, kU8}},
    PartRule{"weight_scale", {kF8E4M3, kF8E4M3, kF8E4M3}},
    PartRule{"weight_global_scale", {kF32, kF32, kF32}},
    PartRule{"input_global_scale", {kF32, kBF16, kF16}, false},
};

Result<Weight> DescribeNvfp4(const WeightParts& parts, std::string_view codes_leaf) {
  KV8_RETURN_IF_ERROR(RequireMatrix(parts, codes_leaf));
  const TensorView& codes = parts.At(codes_leaf);
  const std::int64_t rows = codes.shape[0], cols = 2 * codes.shape[1];
  if (cols % kNvfp4Group != 0) {
    return parts.Bad(
        codes_leaf, Code::kMismatch,
        fmt::format("holds {} columns, which groups of {} do not divide", cols, kNvfp4Group));
  }
  KV8_RETURN_IF_ERROR(RequireShape(parts, "weight_scale", std::array{rows, cols / kNvfp4Group}));
  return Weight{.format = WeightFormat::kNvfp4,
                .rows = rows,
                .cols = cols,
                .codes = codes.data,
                .scales = parts.At("weight_scale").data,
                .group = kNvfp4Group,
                .scale_format = ScaleFormat::kE4m3};
}

Result<Weight> DescribeModelOpt(const WeightParts& parts) {
  return DescribeNvfp4(parts, "weight");
}

Result<Weight> DescribeCompressed(const WeightParts& parts) {
  return DescribeNvfp4(parts, "weight_packed");
}

Result<Weight> LoadModelOpt(const WeightParts& parts, Weight described, std::optional<GptqZeros>,
                            WeightCopies&) {
  KV8_ASSIGN_OR_RETURN(described.global_scale, ReadOnly(parts, "weight_scale_2"));
  return described;
}

Result<Weight> LoadCompressed(const WeightParts& parts, Weight described, std::optional<GptqZeros>,
                              WeightCopies&) {
  KV8_ASSIGN_OR_RETURN(const float divisor, ReadOnly(parts, "weight_global_scale"));
  described.global_scale = 1 / divisor;
  return described;
}

}  // namespace

const WeightLayout kModelOptNvfp4Layout = {"ModelOpt NVFP4", kModelOptParts, nullptr,
                                           DescribeModelOpt, LoadModelOpt};
const WeightLayout kCompressedNvfp4Layout = {"compressed-tensors NVFP4", kCompressedParts, nullptr,
                                             DescribeCompressed, LoadCompressed};

}  // namespace kv8
