// The last part of a hyper-connection's mix: x = mean over streams of sigmoid(up . low) * normed.
// Contract: dense.h.
#include "ops/cuda/dense.h"
#include "ops/cuda/product.cuh"

namespace kv8::cuda {
namespace {

/// x of one dimension: gates[8 s] is what the sigmoid of stream s takes.
__device__ __forceinline__ void WriteMean(const HyperMixArgs& a, const float* gates,
                                          std::int64_t row, int dim) {
  float sum = 0.0f;
#pragma unroll
  for (int s = 0; s < kHyperStreams; ++s) {
    sum = fmaf(Sigmoid(gates[8 * s]), a.normed[(row * kHyperStreams + s) * a.hidden + dim], sum);
  }
  a.x[row * a.hidden + dim] = sum / static_cast<float>(kHyperStreams);
}

/// A thread block has eight dimensions of all four streams: tile m's upper half is stream 2 m, its
/// lower half stream 2 m + 1. Thread blocks: x over dimensions, y over 8 kColumns rows.
template <WeightFormat kFormat, int kColumns>
__device__ void HyperUp(const HyperMixArgs& a) {
  using P = Product<kFormat, kHyperStreams / 2, kColumns>;
  __shared__ float shared[P::kSharedFloats];
  const int g = Lane() / 4, dim = static_cast<int>(blockIdx.x) * 8;
  const int first = static_cast<int>(blockIdx.y) * P::kRows;
  const int low = static_cast<int>(a.down.rows);
  const auto row_at = [&](int row) {
    return Codes16(a.up) + (row / 8 * static_cast<std::int64_t>(a.hidden) + dim + row % 8) * low;
  };
  PrefetchWeights<P::kWeightRows>(low, row_at);
  AfterEarlierKernels();
  const std::uint16_t* weights[kHyperStreams / 2];
  const std::uint16_t* below[kHyperStreams / 2];
#pragma unroll
  for (int m = 0; m < kHyperStreams / 2; ++m) {
    weights[m] = row_at(16 * m + g);
    below[m] = row_at(16 * m + g + 8);
  }
  const float* x[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int row = first + 8 * c + g;
    x[c] = row < a.rows ? a.low + static_cast<std::int64_t>(row) * low : nullptr;
  }
  P product;
  product.Multiply(weights, below, x, low);
  product.Join(
      shared, [&](int row, int column, float sum) { shared[column * P::kWeightRows + row] = sum; });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 8 * P::kRows; i += 32 * kProductWarps) {
    const int row = first + i / 8;
    if (row < a.rows) WriteMean(a, shared + i / 8 * P::kWeightRows + i % 8, row, dim + i % 8);
  }
}

}  // namespace

#define KV8_HYPER_UP(name, format, rows)                           \
  extern "C" __global__ void __launch_bounds__(32 * kProductWarps) \
      kv8_hyper_up_##name##_##rows(const HyperMixArgs args) {      \
    HyperUp<WeightFormat::format, rows / 8>(args);                 \
  }
KV8_HYPER_UP(bf16, kBf16, 8)
KV8_HYPER_UP(bf16, kBf16, 32)
KV8_HYPER_UP(fp16, kFp16, 8)
KV8_HYPER_UP(fp16, kFp16, 32)
#undef KV8_HYPER_UP

}  // namespace kv8::cuda
