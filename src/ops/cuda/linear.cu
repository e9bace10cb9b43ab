// Matrix products with weights as stored, few rows at a time. Contract: linear.h.
#include "ops/cuda/linear.h"

#include "ops/cuda/linear_rows.cuh"
#include "ops/cuda/product.cuh"

namespace kv8::cuda {
namespace {

/// Thread blocks: x over 16 kTiles weight rows of all outputs, y over 8 kColumns activation rows, z
/// over splits of the inner dimension.
template <WeightFormat kFormat, int kTiles, int kColumns>
__device__ void Linear(const LinearArgs& a) {
  using P = Product<kFormat, kTiles, kColumns>;
  __shared__ float shared[P::kSharedFloats];
  const LinearRows mine = FindLinearRows(a, P::kWeightRows);
  const LinearOutput& output = a.outputs[mine.part];
  const int inner = a.inner / a.splits, split = static_cast<int>(blockIdx.z);
  const int g = Lane() / 4, first = static_cast<int>(blockIdx.y) * P::kRows;
  const int weight_rows = static_cast<int>(output.weight.rows);
  const auto row_at = [&](int row) {
    // Past the end the last row again: its sums are not stored.
    const int there = min(mine.first_row + row, weight_rows - 1);
    return Codes16(output.weight) + split * inner + static_cast<std::int64_t>(there) * a.inner;
  };
  PrefetchWeights<P::kWeightRows>(inner, row_at);
  AfterEarlierKernels();
  const std::uint16_t* weights[kTiles];
  const std::uint16_t* below[kTiles];
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    weights[m] = row_at(16 * m + g);
    below[m] = row_at(16 * m + g + 8);
  }
  const float* x[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int row = first + 8 * c + g;
    x[c] = row < a.rows ? a.x + row * a.x_stride + split * inner : nullptr;
  }
  P product;
  product.Multiply(weights, below, x, inner);
  float* const out = output.out + static_cast<std::int64_t>(split) * a.rows * output.stride;
  product.Join(shared, [&](int row, int column, float sum) {
    if (mine.first_row + row >= weight_rows || first + column >= a.rows) return;
    out[(first + column) * output.stride + mine.first_row + row] = sum;
  });
}

}  // namespace

#define KV8_LINEAR(name, format, weight_rows, rows)                       \
  extern "C" __global__ void __launch_bounds__(32 * kProductWarps)        \
      kv8_linear_##name##_##weight_rows##x##rows(const LinearArgs args) { \
    Linear<WeightFormat::format, weight_rows / 16, rows / 8>(args);       \
  }
KV8_LINEAR(bf16, kBf16, 16, 8)
KV8_LINEAR(bf16, kBf16, 32, 8)
KV8_LINEAR(bf16, kBf16, 32, 16)
KV8_LINEAR(bf16, kBf16, 32, 32)
KV8_LINEAR(fp16, kFp16, 16, 8)
KV8_LINEAR(fp16, kFp16, 32, 8)
KV8_LINEAR(fp16, kFp16, 32, 16)
KV8_LINEAR(fp16, kFp16, 32, 32)
#undef KV8_LINEAR

}  // namespace kv8::cuda
