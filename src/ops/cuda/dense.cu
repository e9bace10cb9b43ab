// Embedding, norms and hyper-connections. Contract: dense.h.
#include "ops/cuda/dense.h"

#include "ops/cuda/product.cuh"

namespace kv8::cuda {
namespace {

constexpr int kThreads = 256;

/// Element i of the whole launch; blockIdx.x counts kThreads elements of one row, y rows.
__device__ int Column() {
  return static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
}

__device__ float Decode(const Weight& weight, std::int64_t i) {
  const std::uint16_t code = Codes16(weight)[i];
  return weight.format == WeightFormat::kBf16 ? __uint_as_float(static_cast<unsigned>(code) << 16)
                                              : __half2float(__ushort_as_half(code));
}

/// Sum over the thread block, in every thread; the order is fixed.
__device__ float ThreadBlockSum(float x) {
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
  AfterEarlierKernels();
  const int d = Column();
  if (d >= a.hidden) return;
  const std::int64_t row = blockIdx.y;
  const float value = Decode(a.table, static_cast<std::int64_t>(a.ids[row]) * a.hidden + d);
  for (int s = 0; s < a.streams; ++s) a.out[(row * a.streams + s) * a.hidden + d] = value;
}

/// One thread block per row (y) and group (x).
extern "C" __global__ void __launch_bounds__(kThreads) kv8_grouped_norm(const GroupedNormArgs a) {
  AfterEarlierKernels();
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.y) * a.groups + blockIdx.x) * a.dim;
  float squares = 0.0f;
  for (int d = static_cast<int>(threadIdx.x); d < a.dim; d += kThreads) {
    squares = fmaf(a.x[first + d], a.x[first + d], squares);
  }
  const float scale = rsqrtf(ThreadBlockSum(squares) / static_cast<float>(a.dim) + a.eps);
  for (int d = static_cast<int>(threadIdx.x); d < a.dim; d += kThreads) {
    a.out[first + d] =
        a.x[first + d] * scale * a.gain[static_cast<std::int64_t>(blockIdx.x) * a.dim + d];
  }
}

/// One thread block per row (y) and stream (x): adds inject * y to it, then its norm.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_hyper_norm(const HyperMixArgs a) {
  AfterEarlierKernels();
  const int stream = static_cast<int>(blockIdx.x);
  const std::int64_t row = blockIdx.y, width = std::int64_t{a.stream_count} * a.hidden;
  const std::int64_t first = row * width + std::int64_t{stream} * a.hidden;
  float4* const values = reinterpret_cast<float4*>(a.streams + first);
  const int count = a.hidden / 4;
  float squares = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    float4 v = values[i];
    if (a.y != nullptr) {
      const float inject = a.inject[row * a.stream_count + stream];
      float4 y = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      for (int part = 0; part < a.y_parts; ++part) {
        const std::int64_t at = (static_cast<std::int64_t>(part) * a.rows + row) * a.hidden;
        const float4 more = reinterpret_cast<const float4*>(a.y + at)[i];
        y.x += more.x, y.y += more.y, y.z += more.z, y.w += more.w;
      }
      v = make_float4(fmaf(inject, y.x, v.x), fmaf(inject, y.y, v.y), fmaf(inject, y.z, v.z),
                      fmaf(inject, y.w, v.w));
      values[i] = v;
    }
    squares = fmaf(v.x, v.x, fmaf(v.y, v.y, fmaf(v.z, v.z, fmaf(v.w, v.w, squares))));
  }
  const float scale = rsqrtf(ThreadBlockSum(squares) / static_cast<float>(a.hidden) + a.eps);
  const float4* const gain =
      reinterpret_cast<const float4*>(a.gain + static_cast<std::int64_t>(stream) * a.hidden);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    const float4 v = values[i], g = gain[i];
    const float4 normed =
        make_float4(v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w);
    reinterpret_cast<float4*>(a.normed + first)[i] = normed;
    if (a.rounds) {
      StoreRounded(a.rounded + row * width, stream * a.hidden + 4 * i, normed, a.activation_parts,
                   a.rows * width);
    }
  }
}

/// Sums of the parts; silu of the low-rank values and the inject sigmoid, both over the stream
/// count.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_hyper_activate(const HyperMixArgs a) {
  AfterEarlierKernels();
  const int i = Column(), low = static_cast<int>(a.down.rows);
  const std::int64_t row = blockIdx.y;
  const bool inject = i >= low;
  if (i >= low + a.stream_count || (inject && a.inject_weight.empty())) return;
  const int width = inject ? a.stream_count : low, column = inject ? i - low : i;
  const float* parts = a.parts + row * width + column;
  if (inject) parts += static_cast<std::int64_t>(a.splits) * a.rows * low;
  float sum = 0.0f;
  for (int split = 0; split < a.splits; ++split) {
    sum += parts[static_cast<std::int64_t>(split) * a.rows * width];
  }
  sum /= static_cast<float>(a.stream_count);
  if (inject) {
    a.inject[row * width + column] = 2.0f * Sigmoid(sum);
  } else {
    const float value = Silu(sum);
    a.low[row * width + column] = value;
    if (a.rounds)
      StoreRounded(a.rounded_low + row * width, column, value, a.activation_parts,
                   static_cast<std::int64_t>(a.rows) * width);
  }
}

/// x of many rows, whose up . low is in `parts` by now.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_hyper_mean(const HyperMixArgs a) {
  AfterEarlierKernels();
  const int d = 4 * Column();
  if (d >= a.hidden) return;
  const std::int64_t row = blockIdx.y, first = row * kHyperStreams * a.hidden + d;
  float4 gates[kHyperStreams], normed[kHyperStreams];
#pragma unroll
  for (int s = 0; s < kHyperStreams; ++s) {
    const std::int64_t at = first + std::int64_t{s} * a.hidden;
    gates[s] = *reinterpret_cast<const float4*>(a.parts + at);
    normed[s] = *reinterpret_cast<const float4*>(a.normed + at);
  }
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int s = 0; s < kHyperStreams; ++s) {
    sum = make_float4(fmaf(Sigmoid(gates[s].x), normed[s].x, sum.x),
                      fmaf(Sigmoid(gates[s].y), normed[s].y, sum.y),
                      fmaf(Sigmoid(gates[s].z), normed[s].z, sum.z),
                      fmaf(Sigmoid(gates[s].w), normed[s].w, sum.w));
  }
  constexpr float kStreams = kHyperStreams;
  *reinterpret_cast<float4*>(a.x + row * a.hidden + d) =
      make_float4(sum.x / kStreams, sum.y / kStreams, sum.z / kStreams, sum.w / kStreams);
}

extern "C" __global__ void __launch_bounds__(kThreads) kv8_hyper_combine(const HyperCombineArgs a) {
  AfterEarlierKernels();
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
