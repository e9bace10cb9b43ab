// The n-gram memory. Contract: ple.h.
#include "ops/cuda/ple.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kThreads = 256;

/// The id `back` places before row `row`: of this call, or else of the sequence's context.
__device__ int IdBefore(const PleArgs& a, int row, int back) {
  const int sequence = a.rows.sequence[row];
  int here = 0;  // rows of this sequence before this one in the call, as far as they matter
  while (here < back && row - here > 0 && a.rows.sequence[row - here - 1] == sequence) ++here;
  if (here == back) return a.ids[row - back];
  return a.context[static_cast<std::int64_t>(sequence) * (a.ngram_size - 1) + a.ngram_size - 1 -
                   (back - here)];
}

/// PleRowIds of ops/ple_hash.h for one head.
__device__ std::int64_t TableRow(const PleArgs& a, int row, int head) {
  const int length = 2 + head / a.heads_per_ngram;
  unsigned long long mix = 0;
  bool cut = false;
  for (int s = 0; s < length; ++s) {
    const int id = s == 0 ? a.ids[row] : IdBefore(a, row, s);
    cut = cut || (s > 0 && id == a.eos);
    mix ^= static_cast<unsigned long long>(cut ? a.eos : id) *
           static_cast<unsigned long long>(a.multipliers[s]);
  }
  return static_cast<std::int64_t>(mix % static_cast<unsigned long long>(a.head_sizes[head])) +
         a.offsets[head];
}

/// Sums over the thread block of four values, in every thread; the order is fixed.
struct Sums {
  float v[4];
};
__device__ Sums ThreadBlockSums(Sums x) {
  __shared__ Sums parts[kThreads / 32];
#pragma unroll
  for (float& value : x.v) value = WarpSum(value);
  if (Lane() == 0) parts[Warp()] = x;
  __syncthreads();
  Sums sum{};
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.v[i] += parts[w].v[i];
  }
  return sum;
}

}  // namespace

/// One warp per row (y) and head (x): its table row as floats.
extern "C" __global__ void __launch_bounds__(32) kv8_ple_lookup(const PleArgs a) {
  AfterEarlierKernels();
  const int row = static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.x);
  if (a.rows.sequence[row] < 0) return;
  const std::int64_t at = TableRow(a, row, head);
  const std::uint16_t* const from = a.shards[at / a.shard_rows] + at % a.shard_rows * a.head_dim;
  float* const out = a.memory + (static_cast<std::int64_t>(row) * a.heads + head) * a.head_dim;
  for (int d = Lane(); d < a.head_dim; d += 32) {
    const unsigned code = from[d];
    out[d] = a.table_format == WeightFormat::kBf16
                 ? __uint_as_float(code << 16)
                 : __half2float(__ushort_as_half(static_cast<unsigned short>(code)));
  }
}

/// One thread block per row (y) and stream (x): how well the memory's key fits the residual gates
/// its value.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_ple_gate(const PleArgs a) {
  AfterEarlierKernels();
  const std::int64_t row = blockIdx.y;
  if (a.rows.sequence[row] < 0) return;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * a.hidden;
  const std::int64_t first = row * a.streams * a.hidden + channel;
  const float* const value = a.values + row * a.hidden;
  Sums sums{};  // of key^2, residual^2, their product with both gains, value^2
  for (int d = static_cast<int>(threadIdx.x); d < a.hidden; d += kThreads) {
    const float key = a.keys[first + d], residual = a.residual[first + d];
    sums.v[0] = fmaf(key, key, sums.v[0]);
    sums.v[1] = fmaf(residual, residual, sums.v[1]);
    sums.v[2] =
        fmaf(key * a.gain_key[channel + d], residual * a.gain_query[channel + d], sums.v[2]);
    sums.v[3] = fmaf(value[d], value[d], sums.v[3]);
  }
  sums = ThreadBlockSums(sums);
  const float count = static_cast<float>(a.hidden);
  const float dot = sums.v[2] * rsqrtf(sums.v[0] / count + a.eps) *
                    rsqrtf(sums.v[1] / count + a.eps) * rsqrtf(count);
  const float root = sqrtf(fmaxf(fabsf(dot), 1e-6f));
  const float gate = Sigmoid(dot == 0.0f ? 0.0f : copysignf(root, dot));
  const float scale = rsqrtf(gate * gate * (sums.v[3] / count) + a.eps);
  for (int d = static_cast<int>(threadIdx.x); d < a.hidden; d += kThreads) {
    const float u = gate * value[d];
    a.gated[first + d] = u;
    a.normed[first + d] = u * scale * a.gain_conv[channel + d];
  }
}

/// residual += gated + silu(dilated convolution of normed). Rows of a slice come from the call,
/// what was before them from the state. Thread blocks: x channels, y slices, z rows.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_ple_convolve(const PleArgs a) {
  AfterEarlierKernels();
  const int slot = a.slices.slot[blockIdx.y], begin = a.slices.row_begin[blockIdx.y];
  const int channel = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int width = a.streams * a.hidden;
  if (slot < 0 || channel >= width) return;
  const int history = (a.conv_kernel - 1) * a.ngram_size;
  const float* const state = a.conv_state + static_cast<std::int64_t>(slot) * history * width;
  for (int i = static_cast<int>(blockIdx.z); i < a.slices.row_count[blockIdx.y];
       i += static_cast<int>(gridDim.z)) {
    const std::int64_t row = begin + i;
    float sum = 0.0f;
    for (int j = 0; j < a.conv_kernel; ++j) {
      const int from = i - (a.conv_kernel - 1 - j) * a.ngram_size;
      const float x = from >= 0
                          ? a.normed[(begin + from) * static_cast<std::int64_t>(width) + channel]
                          : state[(history + from) * static_cast<std::int64_t>(width) + channel];
      sum = fmaf(a.conv[static_cast<std::int64_t>(channel) * a.conv_kernel + j], x, sum);
    }
    a.residual[row * width + channel] += a.gated[row * width + channel] + Silu(sum);
  }
}

/// State after `count` rows of a slice that starts at `begin`, from that before it; the two may be
/// one, because a channel is one thread's.
__device__ void Advance(const PleArgs& a, const float* before, const std::int32_t* ids_before,
                        int begin, int count, float* state, std::int32_t* context) {
  const int channel = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const std::int64_t width = static_cast<std::int64_t>(a.streams) * a.hidden;
  const int history = (a.conv_kernel - 1) * a.ngram_size, length = a.ngram_size - 1;
  for (int k = 0; channel < width && k < history; ++k) {
    const int from = count - history + k;  // row of the call, or that far before it
    state[k * width + channel] = from >= 0 ? a.normed[(begin + from) * width + channel]
                                           : before[(history + from) * width + channel];
  }
  for (int k = 0; channel == 0 && k < length; ++k) {
    const int from = count - length + k;
    context[k] = from >= 0 ? a.ids[begin + from] : ids_before[length + from];
  }
}
/// Floats and ids of one state.
__device__ std::int64_t StateFloats(const PleArgs& a) {
  return static_cast<std::int64_t>(a.conv_kernel - 1) * a.ngram_size * a.streams * a.hidden;
}

/// The states between the rows of verified slices (y), after row z of each; before they move on.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_ple_trail(const PleArgs a) {
  AfterEarlierKernels();
  const std::int64_t slot = a.verified.slot[blockIdx.y];
  const int count = static_cast<int>(blockIdx.z) + 1;
  if (slot < 0 || count >= a.verified.row_count[blockIdx.y]) return;
  const std::int64_t entry = slot * a.drafts + count - 1, length = a.ngram_size - 1;
  Advance(a, a.conv_state + slot * StateFloats(a), a.context + slot * length,
          a.verified.row_begin[blockIdx.y], count, a.conv_trail + entry * StateFloats(a),
          a.context_trail + entry * length);
}

/// States move on by the call's rows.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_ple_advance(const PleArgs a) {
  AfterEarlierKernels();
  const std::int64_t slot = a.slices.slot[blockIdx.y];
  if (slot < 0) return;
  float* const state = a.conv_state + slot * StateFloats(a);
  std::int32_t* const context = a.context + slot * (a.ngram_size - 1);
  Advance(a, state, context, a.slices.row_begin[blockIdx.y], a.slices.row_count[blockIdx.y], state,
          context);
}

}  // namespace kv8::cuda
