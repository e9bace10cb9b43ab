// Matrix products with weights as stored.
#pragma once

#include "ops/cuda/device_types.h"
#include "tensor/weight.h"

namespace kv8::cuda {

/// One product of a group that shares its input.
struct LinearOutput {
  Weight weight;        // [N,K], 16-byte aligned
  float* out;           // [T,stride]
  std::int64_t stride;  // of a row of out, at least N
};
inline constexpr int kMaxLinearOutputs = 4;

/// The contract of ops/linear.h: outputs[i].out[t,n] = sum_k x[t,k] weight_i[n,k].
///
/// Limits   K a multiple of 32; all weights BF16 or all FP16; |x| < 65504, |weight| < 65504
/// Numbers  x as two FP16 parts, which leaves 2^-22 of it; BF16 weights become FP16, which rounds
///          only magnitudes below 2^-14, by at most 2^-25; products summed in FP32
/// Splits   with n > 1 splits K is cut into n equal parts, multiples of 32, whose products are not
///          added up: part i goes to outputs[].out + i * T * stride
/// Order    a sum's order depends on K and the splits alone, so every kernel gives the same bits
struct LinearArgs {
  const float* x;  // [T,x_stride], 16-byte aligned rows
  std::int64_t x_stride;
  std::int32_t rows;   // T
  std::int32_t inner;  // K
  std::int32_t count;  // of outputs
  LinearOutput outputs[kMaxLinearOutputs];
  std::int32_t splits = 1;
};

/// Weight and activation rows of one thread block of the kernel for many rows.
inline constexpr std::int32_t kLinearTileRows = 128;
inline constexpr std::int32_t kLinearTileColumns = 64;
/// Pieces of 32 of its operands that it holds, and its dynamic shared memory: all that sm_75 has.
inline constexpr std::int32_t kLinearTileStages = 4;
inline constexpr std::int32_t kLinearTileSharedBytes =
    kLinearTileStages * 32 * (2 * kLinearTileRows + 4 * kLinearTileColumns);

}  // namespace kv8::cuda
