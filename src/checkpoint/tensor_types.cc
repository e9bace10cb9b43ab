#include "checkpoint/tensor_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kv8 {
namespace {

/// Leaves that only quantised checkpoints have: FP8 quantisation blocks, NVFP4, compressed-tensors,
/// AWQ, GPTQ.
constexpr std::array<std::string_view, 13> kQuantisedLeaves = {
    "weight_scale",     "weight_scale_2",
    "weight_scale_inv", "weight_global_scale",
    "weight_packed",    "weight_zero_point",
    "weight_shape",     "input_scale",
    "qweight",          "qzeros",
    "scales",           "g_idx",
    "weight_g_idx"};

}  // namespace

std::string_view LeafOf(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == name.npos ? name : name.substr(dot + 1);
}

std::string WhyUnsupported(std::string_view name, DType dtype,
                           std::span<const std::string_view> integer_leaves) {
  const std::string_view leaf = LeafOf(name);
  if (std::ranges::count(kQuantisedLeaves, leaf) > 0) {
    return "belongs to a quantised checkpoint; this build runs BF16, F16 and F32 weights";
  }
  if (IsPlainFloat(dtype)) return {};
  if (dtype == DType::kI64 && std::ranges::count(integer_leaves, leaf) > 0) return {};
  return fmt::format("has type {}; this build runs BF16, F16 and F32 weights", Name(dtype));
}

}  // namespace kv8
