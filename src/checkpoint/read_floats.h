// A stored tensor's values as FP32.
#pragma once

#include <vector>

#include "tensor/tensor_view.h"

namespace kv8 {

/// Every element, widened exactly. `tensor.dtype` must be BF16, F16 or F32.
std::vector<float> ReadFloats(const TensorView& tensor);

}  // namespace kv8
