#include "checkpoint/tensor_types.h"

#include <fmt/format.h>

#include <algorithm>

namespace kv8 {

std::string_view LeafOf(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == name.npos ? name : name.substr(dot + 1);
}

std::string WhyUnsupported(std::string_view name, DType dtype,
                           std::span<const std::string_view> integer_leaves) {
  if (IsPlainFloat(dtype)) return {};
  if (dtype == DType::kI64 && std::ranges::count(integer_leaves, LeafOf(name)) > 0) return {};
  return fmt::format(
      "has type {}; kv8 reads BF16, F16 and F32 here, and quantised weights as "
      "NAME.weight with their scales",
      Name(dtype));
}

}  // namespace kv8
