// Matrix products with weights as stored.
#pragma once

#include "ops/cuda/device_types.h"

namespace kv8::cuda {

/// How a weight's elements are stored.
enum class WeightType : int { kBf16, kFp16 };

/// A weight [rows,cols], dense, 16-byte aligned.
struct WeightArray {
  const std::uint16_t* data;
  WeightType type;
  std::int32_t rows;
};

/// One product of a group that shares its input.
struct LinearOutput {
  WeightArray weight;   // [N,K]
  float* out;           // [T,stride]
  std::int64_t stride;  // of a row of out, at least N
};
inline constexpr int kMaxLinearOutputs = 4;

/// The contract of ops/linear.h: outputs[i].out[t,n] = sum_k x[t,k] weight_i[n,k].
///
/// Limits   K a multiple of 32; all weights of one type; |x| < 65504, |weight| < 65504
/// Numbers  x as two FP16 parts, which leaves 2^-22 of it; BF16 weights become FP16, which rounds
/// only
///          magnitudes below 2^-14, by at most 2^-25; products summed in FP32
/// Order    a sum's order depends on K alone
struct LinearArgs {
  const float* x;  // [T,x_stride], 16-byte aligned rows
  std::int64_t x_stride;
  std::int32_t rows;   // T
  std::int32_t inner;  // K
  std::int32_t count;  // of outputs
  LinearOutput outputs[kMaxLinearOutputs];
};

/// Weight rows of one block; blocks of output i come after those of output i - 1.
inline constexpr std::int32_t kLinearRows = 32;

}  // namespace kv8::cuda
