// Gated DeltaNet. Contract: gdn.h; why it has this shape: docs/kernels/cuda-gdn.md.
#include "ops/cuda/gdn.h"

#include "ops/cuda/gdn_slice.cuh"

namespace kv8::cuda {
namespace {

constexpr int kHistory = kGdnConvKernel - 1;

/// Rows that the convolution takes at once, so that it waits once for their inputs and sums.
constexpr int kConvAtOnce = 4;

/// Sums over a thread block of kThreads, in every thread.
template <int kThreads>
__device__ void ThreadBlockSums(float (&x)[kConvAtOnce], float (*shared)[kThreads / 32]) {
#pragma unroll
  for (float& value : x) value = WarpSum(value);
  if constexpr (kThreads == 32) return;
  __syncthreads();  // the last use of `shared` is over
#pragma unroll
  for (int i = 0; i < kConvAtOnce; ++i) {
    if (Lane() == 0) shared[i][Warp()] = x[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kConvAtOnce; ++i) {
    x[i] = 0.0f;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) x[i] += shared[i][w];
  }
}

/// One channel of several rows and those before them.
using ConvWindow = float[kHistory + kConvAtOnce];

/// The next `count` rows, zeros behind them.
__device__ __forceinline__ void ReadRows(ConvWindow& window, const float* in, std::int64_t channels,
                                         int count) {
#pragma unroll
  for (int i = 0; i < kConvAtOnce; ++i) {
    window[kHistory + i] = i < count ? in[i * channels] : 0.0f;
  }
}

__device__ __forceinline__ void ConvolveRows(float (&out)[kConvAtOnce],
                                             float (&squares)[kConvAtOnce],
                                             const float (&taps)[kGdnConvKernel],
                                             const ConvWindow& window) {
#pragma unroll
  for (int i = 0; i < kConvAtOnce; ++i) {
    out[i] = 0.0f;
#pragma unroll
    for (int j = 0; j <= kHistory; ++j) out[i] = fmaf(taps[j], window[i + j], out[i]);
    out[i] = Silu(out[i]);
    squares[i] = out[i] * out[i];
  }
}

/// x / |x| over the channels of each row's head; a query's also / sqrt(kDim).
template <int kDim>
__device__ __forceinline__ void Normalise(float (&x)[kConvAtOnce], float (&squares)[kConvAtOnce],
                                          float (*shared)[kDim / 32], bool query) {
  ThreadBlockSums<kDim>(squares, shared);
#pragma unroll
  for (int i = 0; i < kConvAtOnce; ++i) {
    const float scale = rsqrtf(squares[i] + 1e-6f);
    x[i] *= query ? scale * rsqrtf(static_cast<float>(kDim)) : scale;
  }
}

/// The last of `count` rows become the history.
__device__ __forceinline__ void KeepHistory(ConvWindow& window, int count) {
#pragma unroll
  for (int n = 1; n <= kConvAtOnce; ++n) {
    if (n != count) continue;
#pragma unroll
    for (int j = 0; j < kHistory; ++j) window[j] = window[n + j];
  }
}

/// One head's channels, one thread each: rows [kGdnConvRows * blockIdx.z, ...) of a slice.
template <int kDim>
__device__ void Convolve(const GdnArgs& a) {
  __shared__ float shared[kConvAtOnce][kDim / 32];
  const GdnSliceRows slice = FindGdnSlice(a.slices, static_cast<int>(blockIdx.y));
  const int first = static_cast<int>(blockIdx.z) * kGdnConvRows;
  if (slice.slot < 0 || first >= slice.count) return;
  const int head = static_cast<int>(blockIdx.x);
  const std::int64_t channels = static_cast<std::int64_t>(2 * a.key_heads + a.value_heads) * kDim;
  const std::int64_t channel = static_cast<std::int64_t>(head) * kDim + threadIdx.x;
  float* const state = a.conv_state + slice.slot * kHistory * channels + channel;
  const float* const in = a.qkv + slice.begin * channels + channel;
  float* const out = a.convolved + slice.begin * channels + channel;

  float taps[kGdnConvKernel];
  ConvWindow window;
#pragma unroll
  for (int j = 0; j <= kHistory; ++j) taps[j] = a.conv[channel * (kHistory + 1) + j];
#pragma unroll
  for (int j = 0; j < kHistory; ++j) {
    const int row = first - kHistory + j;
    window[j] = row < 0 ? state[(kHistory + row) * channels] : in[row * channels];
  }
  const int end = min(first + kGdnConvRows, slice.count);
  for (int row = first; row < end; row += kConvAtOnce) {
    const int count = min(kConvAtOnce, end - row);
    ReadRows(window, in + row * channels, channels, count);
    float c[kConvAtOnce], squares[kConvAtOnce];
    ConvolveRows(c, squares, taps, window);
    if (head < 2 * a.key_heads) Normalise<kDim>(c, squares, shared, head < a.key_heads);
#pragma unroll
    for (int i = 0; i < kConvAtOnce; ++i) {
      if (i < count) out[(row + i) * channels] = c[i];
    }
    KeepHistory(window, count);
  }
  if (slice.count > kGdnConvRows) return;  // kv8_gdn_conv_state does it
#pragma unroll
  for (int j = 0; j < kHistory; ++j) state[j * channels] = window[j];
}

/// One value head of one sequence. A thread holds four value columns of kRows key rows of the state
/// in registers, for all rows of the slice: thread (ty, tx) rows ty * kRows on, columns 4 tx on.
template <int kDim, int kThreadRows>
struct Recurrence {
  static constexpr int kColumns = kDim / 4;
  static constexpr int kThreads = kColumns * kThreadRows;
  static constexpr int kRows = kDim / kThreadRows;

  struct Shared {
    float q[kDim], k[kDim];
    float reads[2][kThreadRows][kDim];  // parts of S^T k and S^T q
    float u[kDim];
    float sums[kThreads / 32];
  };

  float4 state[kRows];

  __device__ void Run(const GdnArgs& a, Shared& s) {
    const GdnSliceRows slice = FindGdnSlice(a.slices, static_cast<int>(blockIdx.y));
    if (slice.slot < 0 || slice.count == 0) return;
    const int head = static_cast<int>(blockIdx.x);
    const int tx = static_cast<int>(threadIdx.x) % kColumns;
    const int ty = static_cast<int>(threadIdx.x) / kColumns;
    float4* const stored =
        reinterpret_cast<float4*>(a.state +
                                  (static_cast<std::int64_t>(slice.slot) * a.value_heads + head) *
                                      kDim * kDim) +
        ty * kRows * kColumns + tx;
#pragma unroll
    for (int i = 0; i < kRows; ++i) state[i] = stored[i * kColumns];
    for (int row = slice.begin; row < slice.begin + slice.count; ++row) {
      Step(a, s, head, row, tx, ty);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) stored[i * kColumns] = state[i];
  }

 private:
  __device__ void Step(const GdnArgs& a, Shared& s, int head, std::int64_t row, int tx, int ty) {
    const int thread = static_cast<int>(threadIdx.x);
    const int key_head = head / (a.value_heads / a.key_heads);
    const std::int64_t channels = static_cast<std::int64_t>(2 * a.key_heads + a.value_heads) * kDim;
    const float* const q = a.convolved + row * channels + key_head * kDim;
    const float* const k = q + a.key_heads * kDim;
    const float* const v = a.convolved + row * channels + (2 * a.key_heads + head) * kDim;
    const std::int64_t at = row * a.value_heads + head;
    const float decay = expf(GdnLogDecay(a, row, head));
    const float beta = Sigmoid(a.b[at]);
    for (int i = thread; i < kDim; i += kThreads) s.q[i] = q[i], s.k[i] = k[i];
    __syncthreads();
    ReadState(s, tx, ty);
    __syncthreads();
    // o = e^gamma S^T q + (q . k) u: one pass over the state serves both reads.
    float product = 0.0f;
    for (int i = Lane(); i < kDim; i += 32) product = fmaf(s.q[i], s.k[i], product);
    product = WarpSum(product);
    float o = 0.0f;
    if (thread < kDim) {
      float from_k = 0.0f, from_q = 0.0f;
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
        from_k += s.reads[0][i][thread];
        from_q += s.reads[1][i][thread];
      }
      const float u = beta * (v[thread] - decay * from_k);
      s.u[thread] = u;
      o = fmaf(product, u, decay * from_q);
    }
    const float squares = Sum(o * o, s);  // also makes u visible
    UpdateState(s, decay, tx, ty);
    if (thread < kDim) {
      const float scale = rsqrtf(squares / static_cast<float>(kDim) + a.eps);
      a.out[at * kDim + thread] = a.norm[thread] * o * scale * Sigmoid(a.z[at * kDim + thread]);
    }
    __syncthreads();  // q, k, reads and u may be written again
  }

  __device__ void ReadState(Shared& s, int tx, int ty) const {
    float4 from_k = make_float4(0.0f, 0.0f, 0.0f, 0.0f), from_q = from_k;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float k = s.k[ty * kRows + i], q = s.q[ty * kRows + i];
      from_k.x = fmaf(state[i].x, k, from_k.x), from_q.x = fmaf(state[i].x, q, from_q.x);
      from_k.y = fmaf(state[i].y, k, from_k.y), from_q.y = fmaf(state[i].y, q, from_q.y);
      from_k.z = fmaf(state[i].z, k, from_k.z), from_q.z = fmaf(state[i].z, q, from_q.z);
      from_k.w = fmaf(state[i].w, k, from_k.w), from_q.w = fmaf(state[i].w, q, from_q.w);
    }
    *reinterpret_cast<float4*>(&s.reads[0][ty][4 * tx]) = from_k;
    *reinterpret_cast<float4*>(&s.reads[1][ty][4 * tx]) = from_q;
  }

  __device__ void UpdateState(const Shared& s, float decay, int tx, int ty) {
    const float4 u = *reinterpret_cast<const float4*>(&s.u[4 * tx]);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float k = s.k[ty * kRows + i];
      state[i].x = fmaf(k, u.x, decay * state[i].x), state[i].y = fmaf(k, u.y, decay * state[i].y);
      state[i].z = fmaf(k, u.z, decay * state[i].z), state[i].w = fmaf(k, u.w, decay * state[i].w);
    }
  }

  __device__ static float Sum(float x, Shared& s) {
    x = WarpSum(x);
    if (Lane() == 0) s.sums[Warp()] = x;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) sum += s.sums[w];
    return sum;
  }
};

template <int kDim, int kThreadRows>
__device__ void Recur(const GdnArgs& args) {
  using R = Recurrence<kDim, kThreadRows>;
  __shared__ __align__(16) typename R::Shared shared;
  R recurrence;
  recurrence.Run(args, shared);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(32) kv8_gdn_conv_32(const GdnArgs args) {
  AfterEarlierKernels();
  Convolve<32>(args);
}
extern "C" __global__ void __launch_bounds__(128) kv8_gdn_conv_128(const GdnArgs args) {
  AfterEarlierKernels();
  Convolve<128>(args);
}

/// The last raw inputs of slices longer than kGdnConvRows.
extern "C" __global__ void __launch_bounds__(128) kv8_gdn_conv_state(const GdnArgs a) {
  AfterEarlierKernels();
  const GdnSliceRows slice = FindGdnSlice(a.slices, static_cast<int>(blockIdx.y));
  const std::int64_t channels =
      2LL * a.key_heads * a.key_dim + static_cast<std::int64_t>(a.value_heads) * a.value_dim;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (slice.slot < 0 || slice.count <= kGdnConvRows || channel >= channels) return;
#pragma unroll
  for (int j = 0; j < kHistory; ++j) {
    const std::int64_t row = slice.begin + slice.count - kHistory + j;
    a.conv_state[(slice.slot * std::int64_t{kHistory} + j) * channels + channel] =
        a.qkv[row * channels + channel];
  }
}

extern "C" __global__ void __launch_bounds__(32) kv8_gdn_recurrence_32(const GdnArgs args) {
  AfterEarlierKernels();
  Recur<32, 4>(args);
}
extern "C" __global__ void __launch_bounds__(256, 2) kv8_gdn_recurrence_128(const GdnArgs args) {
  AfterEarlierKernels();
  Recur<128, 8>(args);
}

}  // namespace kv8::cuda
