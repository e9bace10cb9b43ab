// Routing to experts and the sum of what they give. Contract: moe.h.
#include "ops/cuda/moe.h"

#include "ops/cuda/common.cuh"

namespace kv8::cuda {
namespace {

constexpr int kRouteWarps = 4;
constexpr int kThreads = 256;

/// Orders like the logit; above 0. NaN is as -infinity.
__device__ __forceinline__ unsigned LogitKey(float logit) {
  const unsigned bits = isnan(logit) ? 0xFF800000u : Bits(logit + 0.0f);  // -0 + 0 is 0
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ unsigned WarpMaximum(unsigned x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(kFullWarp, x);
#else
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x = max(x, __shfl_xor_sync(kFullWarp, x, offset));
  return x;
#endif
}

constexpr int kKeysPerLane = kMaxExperts / 32;

/// The expert of the largest key, ties to the lower one, which is no more among them. keys[i] of a
/// lane is expert lane + 32 i; 0: no such expert, or taken.
__device__ __forceinline__ int TakeBest(unsigned (&keys)[kKeysPerLane], int experts) {
  unsigned best = 0;
  int place = 0;
#pragma unroll
  for (int i = 0; i < kKeysPerLane; ++i) {
    if (32 * i >= experts) break;
    if (keys[i] > best) best = keys[i], place = i;
  }
  const unsigned top = WarpMaximum(best);
  // The lowest expert is the largest complement.
  const unsigned own = static_cast<unsigned>(Lane() + 32 * place);
  const unsigned expert = ~WarpMaximum(best == top ? ~own : 0u);
  if (expert == own) {
#pragma unroll
    for (int i = 0; i < kKeysPerLane; ++i) keys[i] = i == place ? 0u : keys[i];
  }
  return static_cast<int>(expert);
}

/// Routing of one row by one warp: the k largest logits, ties to the lower expert, ascending; their
/// softmax. `chosen` is the warp's.
__device__ void RouteRow(const MoeArgs& a, int row, int* chosen) {
  const float* const logits = a.logits + static_cast<std::int64_t>(row) * a.experts;
  unsigned keys[kKeysPerLane];
#pragma unroll
  for (int i = 0; i < kKeysPerLane; ++i) {
    const int expert = Lane() + 32 * i;
    keys[i] = expert < a.experts ? LogitKey(logits[expert]) : 0u;
  }
  for (int n = 0; n < a.experts_per_token; ++n) {
    const int expert = TakeBest(keys, a.experts);
    if (Lane() == 0) chosen[n] = expert;
  }
  __syncwarp();
  // Lane n has the n-th best; its place is the number of lower experts among the chosen.
  const bool valid = Lane() < a.experts_per_token;
  const int expert = valid ? chosen[Lane()] : 0;
  int place = 0;
  for (int n = 0; n < a.experts_per_token; ++n) place += chosen[n] < expert ? 1 : 0;
  const float top = logits[chosen[0]];
  __syncwarp();
  if (valid) chosen[place] = expert;
  __syncwarp();
  const int mine = valid ? chosen[Lane()] : 0;
  const float weight = valid ? expf(logits[mine] - top) : 0.0f;
  const float sum = WarpSum(weight);
  __syncwarp();  // chosen may be written again
  if (!valid) return;
  const std::int64_t at = static_cast<std::int64_t>(row) * a.experts_per_token + Lane();
  a.chosen[at] = mine;
  a.weights[at] = weight / sum;
}

struct GroupShared {
  int counts[kMaxExperts];
  int sums[32], tiles[32];
};

/// By a thread block of kMaxExperts threads, of which each has the pairs of one expert: `begins`
/// and each expert's tiles. Returns the thread's own begin.
__device__ int ListTiles(const MoeArgs& a, int count, GroupShared& s) {
  const int expert = static_cast<int>(threadIdx.x);
  const int tiles = (count + a.tile.columns - 1) / a.tile.columns;
  int end = count, last_tile = tiles;  // inclusive sums over experts
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(kFullWarp, end, offset);
    const int other_tiles = __shfl_up_sync(kFullWarp, last_tile, offset);
    if (Lane() >= offset) end += other, last_tile += other_tiles;
  }
  if (Lane() == 31) s.sums[Warp()] = end, s.tiles[Warp()] = last_tile;
  __syncthreads();
  for (int w = 0; w < Warp(); ++w) end += s.sums[w], last_tile += s.tiles[w];
  const int begin = end - count;
  if (expert < a.experts) a.begins[expert + 1] = end;
  if (expert == 0) a.begins[0] = 0;
  if (expert == kMaxExperts - 1) a.tiles[0] = {last_tile, 0, 0};
  for (int i = 0; i < tiles; ++i) {
    const int first = begin + i * a.tile.columns;
    a.tiles[1 + last_tile - tiles + i] = {expert, first, min(first + a.tile.columns, end)};
  }
  return begin;
}

/// By the same: sorts the pairs of row and expert by expert. The order within an expert is free:
/// columns of a product do not meet.
__device__ void GroupPairs(const MoeArgs& a, GroupShared& s) {
  const int expert = static_cast<int>(threadIdx.x), pairs = a.rows * a.experts_per_token;
  s.counts[expert] = 0;
  __syncthreads();
  for (int i = expert; i < pairs; i += kMaxExperts) atomicAdd(&s.counts[a.chosen[i]], 1);
  __syncthreads();
  s.counts[expert] = ListTiles(a, s.counts[expert], s);  // where the next pair goes
  __syncthreads();
  for (int i = expert; i < pairs; i += kMaxExperts) {
    a.pairs[atomicAdd(&s.counts[a.chosen[i]], 1)] = i;
  }
}

}  // namespace

/// Many rows: a warp per row, which counts each expert's pairs too; then one thread block; then a
/// thread per pair.
extern "C" __global__ void __launch_bounds__(32 * kRouteWarps) kv8_moe_route(const MoeArgs a) {
  AfterEarlierKernels();
  __shared__ int chosen[kRouteWarps][kMaxExpertsPerToken];
  const int row = static_cast<int>(blockIdx.x) * kRouteWarps + Warp();
  if (row >= a.rows) return;
  RouteRow(a, row, chosen[Warp()]);
  if (Lane() < a.experts_per_token) atomicAdd(a.counts + chosen[Warp()][Lane()], 1);
}
extern "C" __global__ void __launch_bounds__(kMaxExperts) kv8_moe_group(const MoeArgs a) {
  AfterEarlierKernels();
  __shared__ GroupShared shared;
  const int expert = static_cast<int>(threadIdx.x);
  const bool there = expert < a.experts;
  const int begin = ListTiles(a, there ? a.counts[expert] : 0, shared);
  if (there) a.counts[expert] = 0, a.cursors[expert] = begin;
}
extern "C" __global__ void __launch_bounds__(kThreads) kv8_moe_place(const MoeArgs a) {
  AfterEarlierKernels();
  const int pair = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (pair >= a.rows * a.experts_per_token) return;
  a.pairs[atomicAdd(a.cursors + a.chosen[pair], 1)] = pair;
}
/// Few rows: both in one thread block.
extern "C" __global__ void __launch_bounds__(kMaxExperts) kv8_moe_route_group(const MoeArgs a) {
  AfterEarlierKernels();
  __shared__ int chosen[kMaxExperts / 32][kMaxExpertsPerToken];
  __shared__ GroupShared shared;
  for (int row = Warp(); row < a.rows; row += kMaxExperts / 32) RouteRow(a, row, chosen[Warp()]);
  __syncthreads();  // what other warps chose is there
  GroupPairs(a, shared);
}

extern "C" __global__ void __launch_bounds__(kThreads) kv8_moe_sum(const MoeArgs a) {
  AfterEarlierKernels();
  const int d = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (d >= a.hidden) return;
  const std::int64_t row = blockIdx.y;
  float sum = 0.0f;
  for (int n = 0; n < a.experts_per_token; ++n) {
    const std::int64_t pair = row * a.experts_per_token + n;
    sum = fmaf(a.weights[pair], a.expert_out[pair * a.hidden + d], sum);
  }
  const std::int64_t at = row * a.hidden + d;
  a.out[at] = fmaf(Sigmoid(a.shared_gate_value[row]), a.shared_out[at], sum);
}

}  // namespace kv8::cuda
