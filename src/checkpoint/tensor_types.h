// Which stored tensors this build can use.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace kv8 {

/// The part of a tensor's name behind the last dot.
std::string_view LeafOf(std::string_view name);

/// Why a tensor of this name and type, which is no part of a matrix (weight_parts.h), cannot be
/// used: it has a type that nothing in a model has. Empty when it can. Tensors with a leaf of
/// `integer_leaves` may hold 64-bit integers.
std::string WhyUnsupported(std::string_view name, DType dtype,
                           std::span<const std::string_view> integer_leaves);

}  // namespace kv8
