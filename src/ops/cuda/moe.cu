// Mixture of experts. Contract: moe.h.
#include "ops/cuda/moe.h"

#include "ops/cuda/product.cuh"

namespace kv8::cuda {
namespace {

constexpr int kRouteWarps = 4;
constexpr int kThreads = 256;

/// The better of two candidates: the larger logit, at a tie the lower expert; -1 is none.
struct Candidate {
  float logit;
  int expert;

  __device__ void Take(float other_logit, int other) {
    if (other < 0) return;
    if (expert < 0 || other_logit > logit || (other_logit == logit && other < expert)) {
      logit = other_logit, expert = other;
    }
  }
};

/// Both products of a block's 16 rows of gate and up, for up to 8 kColumns pairs of one expert.
template <WeightType kType, int kColumns>
__device__ void GateUp(const MoeArgs& a) {
  using P = Product<kType, 2, kColumns>;
  __shared__ float shared[kProductWarps * P::kWeightRows * P::kRows];
  if (static_cast<int>(blockIdx.y) >= a.active[0]) return;
  const int expert = a.active[1 + blockIdx.y];
  const int g = Lane() / 4, first_row = static_cast<int>(blockIdx.x) * 16;
  const std::uint16_t* weights[2];
  const std::uint16_t* below[2];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const std::int64_t row = (2LL * expert + m) * a.expert_dim + first_row + g;
    weights[m] = a.gate_up.data + row * a.hidden;
    below[m] = weights[m] + 8 * a.hidden;
  }
  const int end = a.begins[expert + 1];
  for (int first = a.begins[expert]; first < end; first += P::kRows) {
    const float* x[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int i = first + 8 * c + g;
      x[c] = i < end ? a.x + static_cast<std::int64_t>(a.pairs[i] / a.experts_per_token) * a.hidden
                     : nullptr;
    }
    P product;
    product.Multiply(weights, below, x, a.hidden);
    __syncthreads();  // the last round has read `shared`
    product.Join(shared, [&](int row, int column, float sum) {
      shared[column * P::kWeightRows + row] = sum;
    });
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 16 * P::kRows; i += 32 * kProductWarps) {
      const int row = i % 16, column = i / 16;
      if (first + column >= end) continue;
      const float* const sums = shared + column * P::kWeightRows + row;
      a.expert_hidden[static_cast<std::int64_t>(a.pairs[first + column]) * a.expert_dim +
                      first_row + row] = Silu(sums[0]) * sums[16];
    }
  }
}

template <WeightType kType, int kColumns>
__device__ void Down(const MoeArgs& a) {
  constexpr int kTiles = kLinearRows / 16;
  using P = Product<kType, kTiles, kColumns>;
  __shared__ float shared[kProductWarps * P::kWeightRows * P::kRows];
  if (static_cast<int>(blockIdx.y) >= a.active[0]) return;
  const int expert = a.active[1 + blockIdx.y];
  const int g = Lane() / 4, first_row = static_cast<int>(blockIdx.x) * kLinearRows;
  const std::uint16_t* weights[kTiles];
  const std::uint16_t* below[kTiles];
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    const std::int64_t row = static_cast<std::int64_t>(expert) * a.hidden + first_row + 16 * m + g;
    weights[m] = a.down.data + row * a.expert_dim;
    below[m] = weights[m] + 8 * a.expert_dim;
  }
  const int end = a.begins[expert + 1];
  for (int first = a.begins[expert]; first < end; first += P::kRows) {
    const float* x[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int i = first + 8 * c + g;
      x[c] = i < end ? a.expert_hidden + static_cast<std::int64_t>(a.pairs[i]) * a.expert_dim
                     : nullptr;
    }
    P product;
    product.Multiply(weights, below, x, a.expert_dim);
    __syncthreads();
    product.Join(shared, [&](int row, int column, float sum) {
      if (first + column >= end) return;
      a.expert_out[static_cast<std::int64_t>(a.pairs[first + column]) * a.hidden + first_row +
                   row] = sum;
    });
  }
}

}  // namespace

/// One warp per row: the k largest logits, ties to the lower expert, ascending; their softmax.
extern "C" __global__ void __launch_bounds__(32 * kRouteWarps) kv8_moe_route(const MoeArgs a) {
  constexpr int kPerLane = kMaxExperts / 32;
  __shared__ int chosen[kRouteWarps][kMaxExpertsPerToken];
  const int row = static_cast<int>(blockIdx.x) * kRouteWarps + Warp();
  if (row >= a.rows) return;
  const float* const logits = a.logits + static_cast<std::int64_t>(row) * a.experts;
  unsigned taken = 0;  // bit i: expert Lane() + 32 i
  Candidate own{0.0f, -1};
  for (int n = 0; n < a.experts_per_token; ++n) {
    own.expert = -1;
    for (int i = 0; i < kPerLane && Lane() + 32 * i < a.experts; ++i) {
      if ((taken >> i & 1u) != 0u) continue;
      const float logit = logits[Lane() + 32 * i];
      own.Take(isnan(logit) ? -Infinity() : logit, Lane() + 32 * i);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const float logit = __shfl_xor_sync(kFullWarp, own.logit, offset);
      own.Take(logit, __shfl_xor_sync(kFullWarp, own.expert, offset));
    }
    if (own.expert % 32 == Lane()) taken |= 1u << (own.expert / 32);
    if (Lane() == 0) chosen[Warp()][n] = own.expert;
  }
  __syncwarp();
  // Lane n has the n-th best; its place is the number of lower experts among the chosen.
  const bool valid = Lane() < a.experts_per_token;
  const int expert = valid ? chosen[Warp()][Lane()] : 0;
  int place = 0;
  for (int n = 0; n < a.experts_per_token; ++n) place += chosen[Warp()][n] < expert ? 1 : 0;
  const float top = logits[chosen[Warp()][0]];
  __syncwarp();
  if (valid) chosen[Warp()][place] = expert;
  __syncwarp();
  const int mine = valid ? chosen[Warp()][Lane()] : 0;
  const float weight = valid ? expf(logits[mine] - top) : 0.0f;
  const float sum = WarpSum(weight);
  if (!valid) return;
  const std::int64_t at = static_cast<std::int64_t>(row) * a.experts_per_token + Lane();
  a.chosen[at] = mine;
  a.weights[at] = weight / sum;
}

/// One block: sorts the pairs of row and expert by expert. The order within an expert is free:
/// columns of a product do not meet.
extern "C" __global__ void __launch_bounds__(kMaxExperts) kv8_moe_group(const MoeArgs a) {
  __shared__ int counts[kMaxExperts];
  __shared__ int sums[32], actives[32];
  const int expert = static_cast<int>(threadIdx.x), pairs = a.rows * a.experts_per_token;
  counts[expert] = 0;
  __syncthreads();
  for (int i = expert; i < pairs; i += kMaxExperts) atomicAdd(&counts[a.chosen[i]], 1);
  __syncthreads();
  const int count = counts[expert];
  int begin = count, rank = count > 0 ? 1 : 0;  // inclusive sums over experts
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(kFullWarp, begin, offset);
    const int other_rank = __shfl_up_sync(kFullWarp, rank, offset);
    if (Lane() >= offset) begin += other, rank += other_rank;
  }
  if (Lane() == 31) sums[Warp()] = begin, actives[Warp()] = rank;
  __syncthreads();
  for (int w = 0; w < Warp(); ++w) begin += sums[w], rank += actives[w];
  if (expert < a.experts) a.begins[expert + 1] = begin;
  if (expert == 0) a.begins[0] = 0;
  if (expert == kMaxExperts - 1) a.active[0] = rank;
  if (count > 0) a.active[rank] = expert;
  counts[expert] = begin - count;  // where the next pair goes
  __syncthreads();
  for (int i = expert; i < pairs; i += kMaxExperts) {
    a.pairs[atomicAdd(&counts[a.chosen[i]], 1)] = i;
  }
}

/// silu(gate) * up of the shared expert, over its gate.
extern "C" __global__ void __launch_bounds__(kThreads) kv8_moe_activate(const MoeArgs a) {
  const int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= a.shared_dim) return;
  float* const row = a.shared_hidden + static_cast<std::int64_t>(blockIdx.y) * 2 * a.shared_dim;
  row[i] = Silu(row[i]) * row[a.shared_dim + i];
}

extern "C" __global__ void __launch_bounds__(kThreads) kv8_moe_sum(const MoeArgs a) {
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

#define KV8_EXPERTS(name, type, columns)                           \
  extern "C" __global__ void __launch_bounds__(32 * kProductWarps) \
      kv8_moe_gate_up_##name##_##columns(const MoeArgs args) {     \
    GateUp<WeightType::type, columns>(args);                       \
  }                                                                \
  extern "C" __global__ void __launch_bounds__(32 * kProductWarps) \
      kv8_moe_down_##name##_##columns(const MoeArgs args) {        \
    Down<WeightType::type, columns>(args);                         \
  }
KV8_EXPERTS(bf16, kBf16, 1)
KV8_EXPERTS(bf16, kBf16, 4)
KV8_EXPERTS(fp16, kFp16, 1)
KV8_EXPERTS(fp16, kFp16, 4)
#undef KV8_EXPERTS

}  // namespace kv8::cuda
