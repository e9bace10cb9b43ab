// What the two kernels of sparse attention share: how stored K and V become operands, and how sums
// become output.
#pragma once

#include "ops/cuda/common.cuh"
#include "ops/cuda/mma.cuh"
#include "ops/cuda/sparse_attention.h"

namespace kv8::cuda {

inline constexpr int kPageTokens = 4;

constexpr int Min(int a, int b) {
  return a < b ? a : b;
}

/// Where byte `byte` of row `row` is in a tile of rows side by side in shared memory. The order of
/// the 16-byte pieces of a row is turned by `turn`, in pieces, so that reading one column of rows
/// meets all banks; rows below 128 bytes need no turn.
template <int kRowBytes>
__device__ __forceinline__ int TileByte(int row, int byte, int turn) {
  const int piece = kRowBytes >= 128 ? (byte / 16) ^ turn : byte / 16;
  return row * kRowBytes + piece * 16 + byte % 16;
}

/// Turns of K, whose neighbouring tokens are read together, and of V, of whose pages four are.
constexpr int TurnOfKey(int token) {
  return token % 2 * 4;
}
constexpr int TurnOfValue(int page) {
  return page % 4 * 2;
}

/// K as an operand: lane 4 g + t takes the 16-byte pieces 4 j + t of column g's token; piece j
/// holds dimensions (4 j + t) * kPerPiece on. Queries are put into the same order.
template <PageType kType, int kDim>
struct KeyPieces {
  static constexpr int kPerPiece = 16 / kElementBytes<kType>;
  static constexpr int kPieces = kDim / (4 * kPerPiece);
  static constexpr int kStepsPerPiece = kPerPiece / 4;  // steps of 16 dimensions, 4 in each lane

  /// sum += q . K over step `i` of a piece.
  __device__ __forceinline__ static void MultiplyStep(float (&sum)[4], const unsigned (&query)[4],
                                                      const uint4& piece, int i) {
    const unsigned words[4] = {piece.x, piece.y, piece.z, piece.w};
    if constexpr (kType == PageType::kE4M3) {
      MmaFp16(sum, query, E4M3ToHalf2(words[i]), E4M3ToHalf2<true>(words[i]));
    } else {
      MmaFp16(sum, query, words[2 * i], words[2 * i + 1]);
    }
  }
};

/// V as an operand, kWidth dimensions of it: lane 4 g + t takes pieces g of the four tokens of page
/// t; element e of piece p is column g of output tile (p, e), which is dimension
/// (8 p + g) * kPerPiece + e.
template <PageType kType, int kWidth>
struct ValuePieces {
  static constexpr int kRowBytes = kWidth * kElementBytes<kType>;
  static constexpr int kPieceBytes = Min(kRowBytes / 8, 16);
  static constexpr int kPieces = kRowBytes / 8 / kPieceBytes;
  static constexpr int kPerPiece = kPieceBytes / kElementBytes<kType>;
  static constexpr int kWords = kPieceBytes / 4;

  __device__ __forceinline__ static void Read(unsigned (&words)[kWords],
                                              const unsigned char* from) {
    if constexpr (kWords == 4) {
      const uint4 v = *reinterpret_cast<const uint4*>(from);
      words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else if constexpr (kWords == 2) {
      const uint2 v = *reinterpret_cast<const uint2*>(from);
      words[0] = v.x, words[1] = v.y;
    } else {
      static_assert(kWords == 1);
      words[0] = *reinterpret_cast<const unsigned*>(from);
    }
  }

  /// sums of piece p += weights . V, from that piece of a page's four tokens.
  __device__ __forceinline__ static void MultiplyPiece(
      float (&sums)[kWidth / 8][4], int p, const unsigned (&weights)[4],
      const unsigned (&token)[kPageTokens][kWords]) {
#pragma unroll
    for (int e = 0; e < kPerPiece; ++e) {
      MmaFp16(sums[p * kPerPiece + e], weights, Join(token[0], token[1], e),
              Join(token[2], token[3], e));
    }
  }

 private:
  /// Element `e` of two tokens as FP16, the first in the low half.
  __device__ __forceinline__ static unsigned Join(const unsigned (&first)[kWords],
                                                  const unsigned (&second)[kWords], int e) {
    if constexpr (kType == PageType::kFp16) {
      return __byte_perm(first[e / 2], second[e / 2], e % 2 ? 0x7632 : 0x5410);
    } else {
      // One permutation serves two elements.
      const unsigned two = __byte_perm(first[e / 4], second[e / 4], e % 4 < 2 ? 0x5140 : 0x7362);
      return e % 2 == 0 ? E4M3ToHalf2<false>(two) : E4M3ToHalf2<true>(two);
    }
  }
};

/// What a score is multiplied with beside its query's scale: the softmax works with powers of two.
template <PageType kType, int kDim>
__device__ __forceinline__ float ScoreFactor(const KvPoolView& kv) {
  return kv.k_scale * (kType == PageType::kE4M3 ? kE4M3Unit : 1.0f) *
         rsqrtf(static_cast<float>(kDim)) * 1.4426950408889634f;
}
/// What a weighted sum of V is multiplied with.
template <PageType kType>
__device__ __forceinline__ float ValueFactor(const KvPoolView& kv) {
  return kv.v_scale * (kType == PageType::kE4M3 ? kE4M3Unit : 1.0f);
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
  return __fdividef(1.0f, 1.0f + __expf(-x));
}

__device__ __forceinline__ float4 Gated(float4 x, float4 gate) {
  return make_float4(x.x * OpenGate(gate.x), x.y * OpenGate(gate.y), x.z * OpenGate(gate.z),
                     x.w * OpenGate(gate.w));
}

}  // namespace kv8::cuda
