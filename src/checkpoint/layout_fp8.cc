// E4M3 codes with a scale per block of 128 x 128, and tables of E4M3 codes with one scale.
#include <array>

#include "base/checked.h"
#include "checkpoint/layouts.h"

namespace kv8 {
namespace {

using enum DType;

constexpr std::array kBlockParts = {
    PartRule{"weight", {kF8E4M3, kF8E4M3, kF8E4M3}},
    PartRule{"weight_scale_inv", {kBF16, kF32, kF32}},
    PartRule{"input_scale", {kBF16, kF32, kF32}, false},
};
constexpr std::array kTableParts = {
    PartRule{"weight", {kF8E4M3, kF8E4M3, kF8E4M3}},
    PartRule{"weight_scale", {kBF16, kF32, kF32}},
    PartRule{"input_scale", {kBF16, kF32, kF32}, false},
};

Result<Weight> DescribeCodes(const WeightParts& parts) {
  KV8_RETURN_IF_ERROR(RequireMatrix(parts, "weight"));
  const TensorView& codes = parts.At("weight");
  return Weight{WeightFormat::kFp8, codes.shape[0], codes.shape[1], codes.data};
}

Result<Weight> DescribeBlocks(const WeightParts& parts) {
  KV8_ASSIGN_OR_RETURN(Weight weight, DescribeCodes(parts));
  const std::array shape = {CeilDiv<std::int64_t>(weight.rows, kFp8BlockSide),
                            CeilDiv<std::int64_t>(weight.cols, kFp8BlockSide)};
  KV8_RETURN_IF_ERROR(RequireShape(parts, "weight_scale_inv", shape));
  const TensorView& scales = parts.At("weight_scale_inv");
  weight.scales = scales.data;
  weight.group = weight.group_rows = kFp8BlockSide;
  weight.scale_format = ScaleFormatOf(scales.dtype);
  return weight;
}

Result<Weight> LoadBlocks(const WeightParts&, Weight described, std::optional<GptqZeros>,
                          WeightCopies&) {
  return described;
}

Result<Weight> LoadTable(const WeightParts& parts, Weight described, std::optional<GptqZeros>,
                         WeightCopies&) {
  KV8_ASSIGN_OR_RETURN(described.global_scale, ReadOnly(parts, "weight_scale"));
  return described;
}

}  // namespace

const WeightLayout kFp8BlockLayout = {"FP8 in blocks of 128 x 128", kBlockParts, nullptr,
                                      DescribeBlocks, LoadBlocks};
const WeightLayout kFp8TableLayout = {"FP8 with one scale", kTableParts, nullptr, DescribeCodes,
                                      LoadTable};

}  // namespace kv8
