// What the two kernels of sparse attention share: how stored K and V become operands, and how sums
// become output.
#pragma once

#include "ops/cuda/common.cuh"
#include "ops/cuda/mma.cuh"
#include "ops/cuda/sparse_attention.h"

namespace kv8::cuda {

constexpr int Min(int a, int b) {
  return a < b ? a : b;
}

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Where byte `byte` of row `row` is in a tile of rows side by side in shared memory. The order of
/// the 16-byte pieces of a row is turned by `turn`, in pieces, so that reading one column of rows
/// meets all banks; rows below 128 bytes have no turn.
template <int kRowBytes>
__device__ __forceinline__ int TileByte(int row, int byte, int turn) {
  const int piece = kRowBytes >= 128 ? (byte / 16) ^ turn : byte / 16;
  return row * kRowBytes + piece * 16 + byte % 16;
}

/// The turn of K, whose neighbouring tokens are read together.
constexpr int TurnOfKey(int token) {
  return token % 2 * 4;
}

/// K as an operand: lane 4 g + t takes the 16-byte pieces 4 j + t of column g's token; piece j
/// holds dimensions (4 j + t) * kPerPiece on. Queries are put into the same order.
template <KvElement kType, int kDim>
struct KeyPieces {
  static constexpr int kPerPiece = 16 / kElementBytes<kType>;
  static constexpr int kPieces = kDim / (4 * kPerPiece);
  static constexpr int kStepsPerPiece = kPerPiece / 4;  // steps of 16 dimensions, 4 in each lane

  /// Step `i` of a piece.
  __device__ __forceinline__ static uint2 Operand(const uint4& piece, int i) {
    const unsigned words[4] = {piece.x, piece.y, piece.z, piece.w};
    if constexpr (kType == KvElement::kE4M3) {
      return make_uint2(E4M3ToHalf2(words[i]), E4M3ToHalf2<true>(words[i]));
    } else {
      return make_uint2(words[2 * i], words[2 * i + 1]);
    }
  }
};

inline constexpr float kLeastNormal = 1.1754944e-38f;

/// What a head's queries are divided by to become FP16, by their largest magnitude. Its reciprocal
/// is finite.
__device__ __forceinline__ float QueryScale(float largest) {
  return fmaxf(largest, kLeastNormal);
}

/// What a score is multiplied with beside its query's scale: the softmax works with powers of two.
template <KvElement kType, int kDim>
__device__ __forceinline__ float ScoreFactor(const KvPoolView& kv) {
  return kv.k_scale * (kType == KvElement::kE4M3 ? kE4M3Unit : 1.0f) *
         rsqrtf(static_cast<float>(kDim)) * 1.4426950408889634f;
}
/// What a weighted sum of V is multiplied with.
template <KvElement kType>
__device__ __forceinline__ float ValueFactor(const KvPoolView& kv) {
  return kv.v_scale * (kType == KvElement::kE4M3 ? kE4M3Unit : 1.0f);
}

/// Where a head of a row has its output and gate.
struct HeadPlace {
  float* out;
  const float* gate;
};
__device__ __forceinline__ HeadPlace PlaceOf(const SparseAttentionArgs& a, int row, int query_head,
                                             int dim) {
  return {a.out + (static_cast<std::int64_t>(row) * a.query_heads + query_head) * dim,
          a.gate + row * a.gate_stride + query_head * a.gate_head_stride};
}

/// The sigmoid to a few parts in a million: what it multiplies was weighted in FP16.
__device__ __forceinline__ float OpenGate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + Exp2(x * -1.4426950408889634f)));
  return y;
}

__device__ __forceinline__ float4 Gated(float4 x, float4 gate) {
  return make_float4(x.x * OpenGate(gate.x), x.y * OpenGate(gate.y), x.z * OpenGate(gate.z),
                     x.w * OpenGate(gate.w));
}

}  // namespace kv8::cuda
