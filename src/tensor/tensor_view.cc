#include "tensor/tensor_view.h"

#include <fmt/format.h>

namespace kv8 {

std::string ShapeText(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace kv8
