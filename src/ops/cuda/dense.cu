// Embedding, norms and hyper-connections. Contract: dense.h.
#include "ops/cuda/dense.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kThreads = 256;

/// Element i of the whole launch; blockIdx.x counts kThreads elements of one row, y rows.
__device__ int Column() {
  return static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
}

__device__ float Decode(const WeightArray& weight, std::int64_t i) {
  const std::uint16_t code = weight.data[i];
  return weight.type == WeightType::kBf16 ? __uint_as_float(static_cast<unsigned>(code) << 16)
                                          : __half2float(__ushort_as_half(code));
}

/// Sum over the block, in every thread; the order is fixed.
__device__ float BlockSum(float x) {
  __shared__ float sums[kThreads / 32];
  x = WarpSum(x);
  if (Lane() == 0) sums[Warp()] = x;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (float part : sums) sum += part;
  return sum;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) kv8_embed(const EmbedArgs a) {
  const int d = Column();
  if (d >= a.hidden) return;
  const std::int64_t row = blockIdx.y;
  const float value = Decode(a.table, static_cast<std::int64_t>(a.ids[row]) * a.hidden + d);
  for (int s = 0; s < a.streams; ++s) a.out[(row * a.streams + s) * a.hidden + d] = value;
}

/// One block per row (y) and group (x).
extern "C" __global__ void __launch_bounds__(kThreads) kv8_grouped_norm(const GroupedNormArgs a) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.y) * a.groups + blockIdx.x) * a.dim;
  float squares = 0.0f;
  for (int d = static_cast<int>(threadIdx.x); d < a.dim; d += kThreads) {
    squares = fmaf(a.x[first + d], a.x[first + d], squares);
  }
  const float scale = rsqrtf(BlockSum(squares) / static_cast<float>(a.dim) + a.eps);
  for (int d = static_cast<int>(threadIdx.x); d < a.dim; d += kThreads) {
    a.out[first + d] =
        a.x[first + d] * scale * a.gain[static_cast<std::int64_t>(blockIdx.x) * a.dim + d];
  }
}

/// silu of the low-rank values and the inject sigmoid, both over the stream count, in place.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_hyper_activate(const HyperMixArgs a) {
  const int i = Column();
  const std::int64_t row = blockIdx.y;
  const float count = static_cast<float>(a.stream_count);
  if (i < a.down.rows) {
    float& value = a.low[row * a.down.rows + i];
    value = Silu(value / count);
  } else if (i < a.down.rows + a.stream_count && a.inject_weight.data != nullptr) {
    float& value = a.inject[row * a.stream_count + i - a.down.rows];
    value = 2.0f * Sigmoid(value / count);
  }
}

/// x = mean over streams of sigmoid(gates) * normed.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_hyper_reduce(const HyperMixArgs a) {
  const int d = Column();
  if (d >= a.hidden) return;
  const std::int64_t row = blockIdx.y;
  float sum = 0.0f;
  for (int s = 0; s < a.stream_count; ++s) {
    const std::int64_t at = (row * a.stream_count + s) * a.hidden + d;
    sum = fmaf(Sigmoid(a.gates[at]), a.normed[at], sum);
  }
  a.x[row * a.hidden + d] = sum / static_cast<float>(a.stream_count);
}

extern "C" __global__ void __launch_bounds__(kThreads) kv8_hyper_combine(const HyperCombineArgs a) {
  const int d = Column();
  if (d >= a.hidden) return;
  const std::int64_t row = blockIdx.y;
  const float y = a.y[row * a.hidden + d];
  for (int s = 0; s < a.stream_count; ++s) {
    float& value = a.streams[(row * a.stream_count + s) * a.hidden + d];
    value = fmaf(a.inject[row * a.stream_count + s], y, value);
  }
}

}  // namespace kv8::cuda
