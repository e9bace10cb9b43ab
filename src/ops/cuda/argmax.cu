// The most likely token of each row, by several thread blocks of which the last joins what all
// found. Contract: argmax.h.
#include "ops/cuda/argmax.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kThreads = 512;
constexpr unsigned long long kNotFinite = ~0ull;  // above every key

/// Orders like the logit, then like the lower token.
__device__ __forceinline__ unsigned long long Key(float logit, unsigned token) {
  if (!isfinite(logit)) return kNotFinite;
  // Equal zeros get one key: + 0 makes -0 to 0.
  const unsigned bits = Bits(logit + 0.0f);
  const unsigned ordered = (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | (~token & 0xFFFFFFFFu);
}

__device__ unsigned long long ThreadBlockMax(unsigned long long key) {
  __shared__ unsigned long long warps[kThreads / 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const unsigned long long other = __shfl_xor_sync(kFullWarp, key, offset);
    key = other > key ? other : key;
  }
  __syncthreads();  // the last use is over
  if (Lane() == 0) warps[Warp()] = key;
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) key = warps[w] > key ? warps[w] : key;
  return key;
}

}  // namespace

/// Thread blocks: x over parts of a row, y over rows.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_argmax(const ArgmaxArgs a) {
  AfterEarlierKernels();
  __shared__ bool last;
  const int parts = static_cast<int>(gridDim.x);
  const std::int64_t row = blockIdx.y;
  const float* const logits = a.logits + row * a.stride;
  unsigned long long best = 0;
  for (int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x); i < a.vocab;
       i += parts * kThreads) {
    const unsigned long long key = Key(logits[i], static_cast<unsigned>(i));
    best = key > best ? key : best;
  }
  best = ThreadBlockMax(best);
  if (threadIdx.x == 0) {
    a.parts[row * parts + blockIdx.x] = best;
    __threadfence();
    last = atomicAdd(a.tickets + row, 1) == parts - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += kThreads) {
    const unsigned long long key =
        __ldcg(reinterpret_cast<const unsigned long long*>(a.parts) + row * parts + i);
    best = key > best ? key : best;
  }
  best = ThreadBlockMax(best);
  if (threadIdx.x != 0) return;
  a.tickets[row] = 0;
  a.tokens[row] =
      best == kNotFinite ? kNoToken : static_cast<std::int32_t>(~static_cast<unsigned>(best));
}

}  // namespace kv8::cuda
