#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/layouts.h"
#include "checkpoint/read_floats.h"

namespace kv8 {

bool PartRule::Takes(DType dtype) const {
  return std::ranges::count(dtypes, dtype) > 0;
}

Result<float> ReadOnly(const WeightParts& parts, std::string_view leaf) {
  const TensorView& view = parts.At(leaf);
  if (view.elements() != 1 || view.shape.size() > 1) {
    return parts.Bad(
        leaf, Code::kUnsupported,
        fmt::format("has shape {}; must be one scale, [] or [1]", ShapeText(view.shape)));
  }
  const float value = ReadFloats(view).front();
  if (!std::isfinite(value) || value <= 0) {
    return parts.Bad(leaf, Code::kCorrupt,
                     fmt::format("is {}; must be a positive finite number", value));
  }
  return value;
}

Result<void> RequireShape(const WeightParts& parts, std::string_view leaf,
                          std::span<const std::int64_t> shape) {
  const TensorView& view = parts.At(leaf);
  if (std::ranges::equal(view.shape, shape)) return {};
  return parts.Bad(
      leaf, Code::kMismatch,
      fmt::format("has shape {}, the codes make it {}", ShapeText(view.shape), ShapeText(shape)));
}

Result<void> RequireMatrix(const WeightParts& parts, std::string_view leaf) {
  const TensorView& view = parts.At(leaf);
  if (view.shape.size() == 2 && view.elements() > 0) return {};
  return parts.Bad(leaf, Code::kUnsupported,
                   fmt::format("has shape {}; quantised weights are matrices [rows, columns]",
                               ShapeText(view.shape)));
}

Result<std::int32_t> GroupOf(const WeightParts& parts, std::string_view scales, std::int64_t cols,
                             std::int64_t groups) {
  if (groups > 0 && cols % groups == 0) return static_cast<std::int32_t>(cols / groups);
  return parts.Bad(scales, Code::kMismatch,
                   fmt::format("has {} groups, which do not divide the {} columns", groups, cols));
}

ScaleFormat ScaleFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3:
      return ScaleFormat::kE4m3;
    case DType::kBF16:
      return ScaleFormat::kBf16;
    case DType::kF16:
      return ScaleFormat::kFp16;
    default:
      return ScaleFormat::kFp32;
  }
}

std::byte* Allocate(std::int64_t bytes, WeightCopies& copies) {
  const std::shared_ptr<std::byte[]> memory(new std::byte[static_cast<std::size_t>(bytes)]);
  copies.push_back(memory);
  return memory.get();
}

std::uint8_t NibbleOf(const std::byte* word, int i) {
  // Little-endian words: field i lies in the half i % 2 of byte i / 2.
  return static_cast<std::uint8_t>(static_cast<unsigned>(word[i / 2]) >> (i % 2 * 4) & 0xF);
}

}  // namespace kv8
