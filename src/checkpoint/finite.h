// Looking for NaN and infinity in weights.
#pragma once

#include <string_view>

#include "kv8/error.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Reads every element of a BF16, F16, F32 or F8_E4M3 tensor; other types pass. Takes as long as
/// reading the bytes does, so opening a checkpoint does not do it: the model checks its small
/// tensors when it binds them, `kv8 inspect --check-finite` checks all. Errors: kCorrupt, naming
/// tensor, file and element, at the first that is not finite.
Result<void> CheckFinite(const TensorView& tensor, std::string_view name, std::string_view file);

}  // namespace kv8
