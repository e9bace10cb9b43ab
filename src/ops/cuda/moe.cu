// Mixture of experts. Contract: moe.h.
#include "ops/cuda/moe.h"

#include "ops/cuda/product.cuh"

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

/// One expert's weights and pairs, or some rows of the shared expert, whose pairs are rows.
struct ExpertRows {
  const std::uint16_t *gate, *up, *down;
  int width;                  // F or Fs
  const std::int32_t* pairs;  // null: pair i is i
  int begin, end;
  int pairs_per_row;
  float* hidden;  // [pairs,width]
  float* out;     // [pairs,H]

  __device__ int Pair(int i) const { return pairs == nullptr ? i : pairs[i]; }
};

__device__ const std::uint16_t* OfExpert(const ExpertWeights& experts, std::int64_t expert) {
  return reinterpret_cast<const std::uint16_t*>(experts.first.codes + expert * experts.stride);
}

/// blockIdx.y counts groups of `rows` rows of the shared expert, then experts in use. False for a
/// thread block that has nothing to do.
__device__ bool FindExpertRows(const MoeArgs& a, int rows, ExpertRows& e) {
  const int groups = (a.rows + rows - 1) / rows, index = static_cast<int>(blockIdx.y) - groups;
  if (index < 0) {
    const int begin = static_cast<int>(blockIdx.y) * rows;
    e = {Codes16(a.shared_gate_proj),
         Codes16(a.shared_up_proj),
         Codes16(a.shared_down_proj),
         a.shared_dim,
         nullptr,
         begin,
         min(begin + rows, a.rows),
         1,
         a.shared_hidden,
         a.shared_out};
    return true;
  }
  if (index >= a.active[0]) return false;
  const std::int64_t expert = a.active[1 + index];
  const std::uint16_t* const gate = OfExpert(a.gate_up, expert);
  e = {gate,
       gate + static_cast<std::int64_t>(a.expert_dim) * a.hidden,
       OfExpert(a.down, expert),
       a.expert_dim,
       a.pairs,
       a.begins[expert],
       a.begins[expert + 1],
       a.experts_per_token,
       a.expert_hidden,
       a.expert_out};
  return true;
}

/// 16 rows of gate and the same of up, for the pairs of one expert, 8 kColumns at a time.
template <WeightFormat kFormat, int kColumns>
__device__ void GateUp(const MoeArgs& a) {
  using P = Product<kFormat, 2, kColumns>;
  __shared__ float shared[P::kSharedFloats];
  ExpertRows e;
  const int g = Lane() / 4, first_row = static_cast<int>(blockIdx.x) * kMoeGateRows;
  if (!FindExpertRows(a, P::kRows, e) || first_row >= e.width) return;
  const std::int64_t at = static_cast<std::int64_t>(first_row + g) * a.hidden;
  const std::uint16_t* const weights[2] = {e.gate + at, e.up + at};
  const std::uint16_t* const below[2] = {weights[0] + 8 * a.hidden, weights[1] + 8 * a.hidden};
  for (int first = e.begin; first < e.end; first += P::kRows) {
    const float* x[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int i = first + 8 * c + g;
      x[c] = i < e.end ? a.x + static_cast<std::int64_t>(e.Pair(i) / e.pairs_per_row) * a.hidden
                       : nullptr;
    }
    P product;
    product.Multiply(weights, below, x, a.hidden);
    __syncthreads();  // the last round has read `shared`
    product.Join(shared, [&](int row, int column, float sum) {
      shared[column * P::kWeightRows + row] = sum;
    });
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kMoeGateRows * P::kRows;
         i += 32 * kProductWarps) {
      const int row = i % kMoeGateRows, column = i / kMoeGateRows;
      if (first + column >= e.end) continue;
      const float* const sums = shared + column * P::kWeightRows + row;
      e.hidden[static_cast<std::int64_t>(e.Pair(first + column)) * e.width + first_row + row] =
          Silu(sums[0]) * sums[kMoeGateRows];
    }
  }
}

template <WeightFormat kFormat, int kColumns>
__device__ void Down(const MoeArgs& a) {
  constexpr int kTiles = kMoeDownRows / 16;
  using P = Product<kFormat, kTiles, kColumns>;
  __shared__ float shared[P::kSharedFloats];
  ExpertRows e;
  if (!FindExpertRows(a, P::kRows, e)) return;
  const int g = Lane() / 4, first_row = static_cast<int>(blockIdx.x) * kMoeDownRows;
  const std::uint16_t* weights[kTiles];
  const std::uint16_t* below[kTiles];
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    weights[m] = e.down + static_cast<std::int64_t>(first_row + 16 * m + g) * e.width;
    below[m] = weights[m] + 8 * e.width;
  }
  for (int first = e.begin; first < e.end; first += P::kRows) {
    const float* x[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int i = first + 8 * c + g;
      x[c] = i < e.end ? e.hidden + static_cast<std::int64_t>(e.Pair(i)) * e.width : nullptr;
    }
    P product;
    product.Multiply(weights, below, x, e.width);
    __syncthreads();
    product.Join(shared, [&](int row, int column, float sum) {
      if (first + column >= e.end) return;
      e.out[static_cast<std::int64_t>(e.Pair(first + column)) * a.hidden + first_row + row] = sum;
    });
  }
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
  int sums[32], actives[32];
};

/// By a thread block of kMaxExperts threads: sorts the pairs of row and expert by expert. The order
/// within an expert is free: columns of a product do not meet.
__device__ void GroupPairs(const MoeArgs& a, GroupShared& s) {
  const int expert = static_cast<int>(threadIdx.x), pairs = a.rows * a.experts_per_token;
  s.counts[expert] = 0;
  __syncthreads();
  for (int i = expert; i < pairs; i += kMaxExperts) atomicAdd(&s.counts[a.chosen[i]], 1);
  __syncthreads();
  const int count = s.counts[expert];
  int begin = count, rank = count > 0 ? 1 : 0;  // inclusive sums over experts
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(kFullWarp, begin, offset);
    const int other_rank = __shfl_up_sync(kFullWarp, rank, offset);
    if (Lane() >= offset) begin += other, rank += other_rank;
  }
  if (Lane() == 31) s.sums[Warp()] = begin, s.actives[Warp()] = rank;
  __syncthreads();
  for (int w = 0; w < Warp(); ++w) begin += s.sums[w], rank += s.actives[w];
  if (expert < a.experts) a.begins[expert + 1] = begin;
  if (expert == 0) a.begins[0] = 0;
  if (expert == kMaxExperts - 1) a.active[0] = rank;
  if (count > 0) a.active[rank] = expert;
  s.counts[expert] = begin - count;  // where the next pair goes
  __syncthreads();
  for (int i = expert; i < pairs; i += kMaxExperts) {
    a.pairs[atomicAdd(&s.counts[a.chosen[i]], 1)] = i;
  }
}

}  // namespace

/// Many rows: a warp per row, then one thread block.
extern "C" __global__ void __launch_bounds__(32 * kRouteWarps) kv8_moe_route(const MoeArgs a) {
  AfterEarlierKernels();
  __shared__ int chosen[kRouteWarps][kMaxExpertsPerToken];
  const int row = static_cast<int>(blockIdx.x) * kRouteWarps + Warp();
  if (row < a.rows) RouteRow(a, row, chosen[Warp()]);
}
extern "C" __global__ void __launch_bounds__(kMaxExperts) kv8_moe_group(const MoeArgs a) {
  AfterEarlierKernels();
  __shared__ GroupShared shared;
  GroupPairs(a, shared);
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

#define KV8_EXPERTS(name, format, rows)                            \
  extern "C" __global__ void __launch_bounds__(32 * kProductWarps) \
      kv8_moe_gate_up_##name##_##rows(const MoeArgs args) {        \
    AfterEarlierKernels();                                         \
    GateUp<WeightFormat::format, rows / 8>(args);                  \
  }                                                                \
  extern "C" __global__ void __launch_bounds__(32 * kProductWarps) \
      kv8_moe_down_##name##_##rows(const MoeArgs args) {           \
    AfterEarlierKernels();                                         \
    Down<WeightFormat::format, rows / 8>(args);                    \
  }
KV8_EXPERTS(bf16, kBf16, 8)
KV8_EXPERTS(bf16, kBf16, 32)
KV8_EXPERTS(fp16, kFp16, 8)
KV8_EXPERTS(fp16, kFp16, 32)
#undef KV8_EXPERTS

}  // namespace kv8::cuda
