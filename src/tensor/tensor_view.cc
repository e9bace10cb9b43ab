#include "tensor/tensor_view.h"

#include <fmt/format.h>

namespace kv8 {

std::string ShapeText(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string TensorPlace(std::string_view file, std::string_view tensor) {
  return fmt::format("{}: tensor {}", file, tensor);
}

}  // namespace kv8
