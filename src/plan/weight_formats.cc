#include "plan/weight_formats.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace kv8 {
namespace {

constexpr Weight kFp8Blocks{.format = WeightFormat::kFp8,
                            .group = kFp8BlockSide,
                            .group_rows = kFp8BlockSide,
                            .scale_format = ScaleFormat::kFp32};
constexpr Weight kNvfp4Groups{
    .format = WeightFormat::kNvfp4, .group = kNvfp4Group, .scale_format = ScaleFormat::kE4m3};
// One scale for a whole tensor is part of no row: it counts as none.
constexpr Weight kFp8Whole{.format = WeightFormat::kFp8};

/// "int4-g128" -> 128; 0 for anything else.
int Int4Group(std::string_view name) {
  constexpr std::string_view kPrefix = "int4-g";
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  int group = 0;
  const auto [stop, problem] = std::from_chars(name.data(), name.data() + name.size(), group);
  const bool good = problem == std::errc() && stop == name.data() + name.size() &&
                    name.front() != '0' && group >= 8 && group <= 1024 && group % 8 == 0;
  return good ? group : 0;
}

}  // namespace

Weight WeightFormats::Of(std::string_view tensor) const {
  if (tensor.find(".mlp.experts.") != tensor.npos) return experts;
  if (tensor.find(".ngram_embedding.") != tensor.npos) return table;
  return Weight{};
}

Result<Weight> ParseWeightFormat(std::string_view name) {
  if (name == "bf16") return Weight{};
  if (name == "fp16") return Weight{.format = WeightFormat::kFp16};
  if (name == "fp32") return Weight{.format = WeightFormat::kFp32};
  if (name == "fp8") return kFp8Blocks;
  if (name == "nvfp4") return kNvfp4Groups;
  if (const int group = Int4Group(name); group > 0) {
    return Weight{
        .format = WeightFormat::kInt4, .group = group, .scale_format = ScaleFormat::kBf16};
  }
  return Error{Code::kInvalidArgument,
               fmt::format("\"{}\" is not one of bf16, fp16, fp32, fp8, nvfp4, int4-gN (N columns "
                           "share a scale: a multiple of 8 up to 1024, such as int4-g32)",
                           name),
               "", ""};
}

Result<Weight> ParseTableFormat(std::string_view name) {
  if (name == "bf16") return Weight{};
  if (name == "fp8") return kFp8Whole;
  if (name == "nvfp4") return kNvfp4Groups;
  return Error{Code::kInvalidArgument, fmt::format("\"{}\" is not one of bf16, fp8, nvfp4", name),
               "", ""};
}

}  // namespace kv8
