// Values as elements of BF16 and F16.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv8/error.h"
#include "synth/model_tensors.h"
#include "tensor/dtype.h"
#include "tensor/weight.h"

namespace kv8 {

/// The type of a plain tensor that is written: `format` is kBf16 or kFp16.
constexpr DType DTypeOf(WeightFormat format) {
  return format == WeightFormat::kFp16 ? DType::kF16 : DType::kBF16;
}

/// Elements of `tensor` from `begin` on. Errors: kUnsupported for a value that rounds to infinity.
Result<std::vector<std::uint16_t>> PlainCodes(const ModelTensor& tensor, std::int64_t begin,
                                              std::span<const float> values, WeightFormat format);

}  // namespace kv8
