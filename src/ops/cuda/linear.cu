// Matrix products with weights as stored. Contract: linear.h.
#include "ops/cuda/linear.h"

#include "ops/cuda/product.cuh"

namespace kv8::cuda {
namespace {

/// Blocks: x over kLinearRows weight rows of all outputs, y over 8 kColumns activation rows.
template <WeightType kType, int kColumns>
__device__ void Linear(const LinearArgs& a) {
  constexpr int kTiles = kLinearRows / 16;
  using P = Product<kType, kTiles, kColumns>;
  __shared__ float shared[kProductWarps * P::kWeightRows * P::kRows];
  int block = static_cast<int>(blockIdx.x), part = 0;
  while (true) {
    const int blocks = (a.outputs[part].weight.rows + kLinearRows - 1) / kLinearRows;
    if (block < blocks) break;
    block -= blocks;
    ++part;
  }
  const LinearOutput& output = a.outputs[part];
  const int g = Lane() / 4;
  const int first_row = block * kLinearRows, first = static_cast<int>(blockIdx.y) * P::kRows;
  const std::uint16_t* weights[kTiles];
  const std::uint16_t* below[kTiles];
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    // Past the end the last row again: its sums are not stored.
    const int row = first_row + 16 * m + g, last = output.weight.rows - 1;
    weights[m] = output.weight.data + static_cast<std::int64_t>(min(row, last)) * a.inner;
    below[m] = output.weight.data + static_cast<std::int64_t>(min(row + 8, last)) * a.inner;
  }
  const float* x[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int row = first + 8 * c + g;
    x[c] = row < a.rows ? a.x + row * a.x_stride : nullptr;
  }
  P product;
  product.Multiply(weights, below, x, a.inner);
  product.Join(shared, [&](int row, int column, float sum) {
    if (first_row + row >= output.weight.rows || first + column >= a.rows) return;
    output.out[(first + column) * output.stride + first_row + row] = sum;
  });
}

}  // namespace

#define KV8_LINEAR(name, type, columns)                            \
  extern "C" __global__ void __launch_bounds__(32 * kProductWarps) \
      kv8_linear_##name##_##columns(const LinearArgs args) {       \
    Linear<WeightType::type, columns>(args);                       \
  }
KV8_LINEAR(bf16, kBf16, 1)
KV8_LINEAR(bf16, kBf16, 4)
KV8_LINEAR(fp16, kFp16, 1)
KV8_LINEAR(fp16, kFp16, 4)
#undef KV8_LINEAR

}  // namespace kv8::cuda
