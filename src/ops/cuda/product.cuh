// Products of stored weights with FP32 activations: what linear and the experts are made of.
#pragma once

#include "ops/cuda/linear.h"
#include "ops/cuda/mma.cuh"

namespace kv8::cuda {

inline constexpr int kProductWarps = 4;

/// Two neighbouring weights as FP16.
template <WeightType kType>
__device__ __forceinline__ unsigned WeightPair(unsigned pair) {
  if constexpr (kType == WeightType::kFp16) {
    return pair;
  } else {
    return PackHalf2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
  }
}

/// sums[m][c] = 16 weight rows times 8 activation rows, for kTiles tiles of weight rows and
/// kColumns of activation rows. The block's warps share the inner dimension in pieces of 32: warp w
/// takes every fourth, so the order of a sum depends on the inner dimension alone.
template <WeightType kType, int kTiles, int kColumns>
struct Product {
  static constexpr int kWeightRows = 16 * kTiles;
  static constexpr int kRows = 8 * kColumns;

  float sums[kTiles][kColumns][4] = {};

  /// Lane 4 g + t: `weights[m]` is row g of tile m, `weights_below[m]` row g + 8, `x[c]` row g of
  /// column tile c or null for a row that is not there.
  __device__ void Multiply(const std::uint16_t* const (&weights)[kTiles],
                           const std::uint16_t* const (&weights_below)[kTiles],
                           const float* const (&x)[kColumns], int inner) {
    const int t = Lane() % 4;
#pragma unroll 2
    for (int k = 32 * Warp() + 8 * t; k < inner; k += 32 * kProductWarps) {
      uint4 above[kTiles], below[kTiles];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        above[m] = __ldg(reinterpret_cast<const uint4*>(weights[m] + k));
        below[m] = __ldg(reinterpret_cast<const uint4*>(weights_below[m] + k));
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        float4 first = make_float4(0.0f, 0.0f, 0.0f, 0.0f), second = first;
        if (x[c] != nullptr) {
          first = *reinterpret_cast<const float4*>(x[c] + k);
          second = *reinterpret_cast<const float4*>(x[c] + k + 4);
        }
        Step(above, below, c, first, 0);
        Step(above, below, c, second, 1);
      }
    }
  }

  /// Adds up the warps' shares, in their order, and calls store(weight row, activation row, sum)
  /// for each sum of the block. `shared` holds kProductWarps * kWeightRows * kRows floats.
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
      float sum = shared[i];
#pragma unroll
      for (int w = 1; w < kProductWarps; ++w) sum += shared[w * kWeightRows * kRows + i];
      store(i % kWeightRows, i / kWeightRows, sum);
    }
  }

 private:
  /// Step `s` of the piece: four of the lane's eight values.
  __device__ __forceinline__ void Step(const uint4 (&above)[kTiles], const uint4 (&below)[kTiles],
                                       int c, const float4& v, int s) {
    const unsigned high[2] = {PackHalf2(v.x, v.y), PackHalf2(v.z, v.w)};
    const float2 h0 = UnpackHalf2(high[0]), h1 = UnpackHalf2(high[1]);
    const unsigned low[2] = {PackHalf2(v.x - h0.x, v.y - h0.y), PackHalf2(v.z - h1.x, v.w - h1.y)};
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      const unsigned fragment[4] = {WeightPair<kType>(s == 0 ? above[m].x : above[m].z),
                                    WeightPair<kType>(s == 0 ? below[m].x : below[m].z),
                                    WeightPair<kType>(s == 0 ? above[m].y : above[m].w),
                                    WeightPair<kType>(s == 0 ? below[m].y : below[m].w)};
      MmaFp16(sums[m][c], fragment, high[0], high[1]);
      MmaFp16(sums[m][c], fragment, low[0], low[1]);
    }
  }
};

}  // namespace kv8::cuda
