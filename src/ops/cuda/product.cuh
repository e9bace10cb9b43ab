// Products of stored weights with FP32 activations: what linear and the experts are made of.
//
// A sum has one order in every kernel, which depends on the inner dimension alone. Pieces of
// 32 are dealt to kProductShares shares in turn. Within a share the matrix units add up piece by
// piece: its steps 0 and 1, of each the upper parts of the activations and then the lower ones,
// where lane t holds values 8 t + 4 step to 8 t + 4 step + 3 of the piece. The shares are added to
// zero in their order.
#pragma once

#include "ops/cuda/linear.h"
#include "ops/cuda/mma.cuh"

namespace kv8::cuda {

inline constexpr int kProductPiece = 32;
inline constexpr int kProductShares = 4;
inline constexpr int kProductWarps = kProductShares;  // of a thread block that gives each a share

/// Before AfterEarlierKernels(): a thread block asks for its first weights, which no kernel writes,
/// so that the memory has work while earlier kernels end. One line per thread: with every
/// multiprocessor full that is a few microseconds of reading, and less than the cache. `row_at(i)`
/// is where row i of kRows begins, `inner` its length. Only where kernels begin early: elsewhere
/// nothing stands between this and the reading itself.
template <int kRows, class RowAt>
__device__ __forceinline__ void PrefetchWeights(int inner, RowAt&& row_at) {
#if __CUDA_ARCH__ >= 900
  constexpr int kLines = 32 * kProductWarps / kRows;  // of each row
  constexpr int kLineWeights = 64;
  const int row = static_cast<int>(threadIdx.x) / kLines;
  const int k = static_cast<int>(threadIdx.x) % kLines * kLineWeights;
  if (k < inner) PrefetchToL2(row_at(row) + k);
#endif
}

/// Two neighbouring weights as FP16.
template <WeightFormat kFormat>
__device__ __forceinline__ unsigned WeightPair(unsigned pair) {
  if constexpr (kFormat == WeightFormat::kFp16) {
    return pair;
  } else {
    return PackHalf2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
  }
}

/// One step's weights of rows g and g + 8 of a tile, from the 16 bytes of a piece that a lane
/// holds.
template <WeightFormat kFormat>
__device__ __forceinline__ void WeightFragment(unsigned (&fragment)[4], const uint4& above,
                                               const uint4& below, int step) {
  fragment[0] = WeightPair<kFormat>(step == 0 ? above.x : above.z);
  fragment[1] = WeightPair<kFormat>(step == 0 ? below.x : below.z);
  fragment[2] = WeightPair<kFormat>(step == 0 ? above.y : above.w);
  fragment[3] = WeightPair<kFormat>(step == 0 ? below.y : below.w);
}

/// Four activations as two FP16 parts.
struct SplitActivations {
  uint2 high, low;

  __device__ __forceinline__ explicit SplitActivations(const float4& v) {
    high = make_uint2(PackHalf2(v.x, v.y), PackHalf2(v.z, v.w));
    const float2 h0 = UnpackHalf2(high.x), h1 = UnpackHalf2(high.y);
    low = make_uint2(PackHalf2(v.x - h0.x, v.y - h0.y), PackHalf2(v.z - h1.x, v.w - h1.y));
  }
};

/// sums[m][c] = 16 weight rows times 8 activation rows, for kTiles tiles of weight rows and
/// kColumns of activation rows. Each warp of the thread block has its own share, so that together
/// they read whole lines of memory; what keeps the memory busy is many small thread blocks.
template <WeightFormat kFormat, int kTiles, int kColumns>
struct Product {
  static constexpr int kWeightRows = 16 * kTiles;
  static constexpr int kRows = 8 * kColumns;
  static constexpr int kSharedFloats = kProductWarps * kWeightRows * kRows;
#if __CUDA_ARCH__ >= 750
  static constexpr int kUnroll = kColumns == 1 ? 4 : 2;
#else
  static constexpr int kUnroll = 1;  // products are many instructions there
#endif

  float sums[kTiles][kColumns][4] = {};

  /// Lane 4 g + t: `weights[m]` is row g of tile m, `weights_below[m]` row g + 8, `x[c]` row g of
  /// column tile c or null for a row that is not there.
  __device__ void Multiply(const std::uint16_t* const (&weights)[kTiles],
                           const std::uint16_t* const (&weights_below)[kTiles],
                           const float* const (&x)[kColumns], int inner) {
#pragma unroll kUnroll
    for (int k = kProductPiece * Warp() + 8 * (Lane() % 4); k < inner;
         k += kProductPiece * kProductShares) {
      uint4 above[kTiles], below[kTiles];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        above[m] = __ldg(reinterpret_cast<const uint4*>(weights[m] + k));
        below[m] = __ldg(reinterpret_cast<const uint4*>(weights_below[m] + k));
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        float4 values[2] = {};
        if (x[c] != nullptr) {
          values[0] = *reinterpret_cast<const float4*>(x[c] + k);
          values[1] = *reinterpret_cast<const float4*>(x[c] + k + 4);
        }
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const SplitActivations split(values[step]);
#pragma unroll
          for (int m = 0; m < kTiles; ++m) {
            unsigned fragment[4];
            WeightFragment<kFormat>(fragment, above[m], below[m], step);
            MmaFp16(sums[m][c], fragment, split.high.x, split.high.y);
            MmaFp16(sums[m][c], fragment, split.low.x, split.low.y);
          }
        }
      }
    }
  }

  /// Adds up the shares and calls store(weight row, activation row, sum) for each sum of the
  /// thread block. `shared` holds kSharedFloats.
  template <class Store>
  __device__ void Join(float* shared, Store&& store) const {
    const int g = Lane() / 4, t = Lane() % 4;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = 16 * m + g + 8 * (i / 2), column = 8 * c + 2 * t + i % 2;
          shared[(Warp() * kRows + column) * kWeightRows + row] = sums[m][c][i];
        }
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kWeightRows * kRows; i += 32 * kProductWarps) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kProductWarps; ++w) sum += shared[w * kWeightRows * kRows + i];
      store(i % kWeightRows, i / kWeightRows, sum);
    }
  }
};

}  // namespace kv8::cuda
