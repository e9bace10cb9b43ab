// Products of stored weights with activations: what linear, the experts and hyper-connections are
// made of, and the one order of their sums.
//
// A sum starts from zero, and the matrix units add one block of 16 values after the other; nothing
// else decides its bits. A piece of 32 neighbouring values has two blocks: the first has values
// 8 t to 8 t + 3, t = 0 to 3, the second 8 t + 4 to 8 t + 7. Within a block the units' sum does not
// depend on which value stands where, and mma and wgmma give the same bits (measured on sm_90).
// With two parts of an activation, a block is added with the upper parts, then with the lower ones.
//
// Few rows: product_rows.cuh. More rows: product_tiles.cuh. A product is a struct P of
//   int inner()                                   values of a row
//   const std::uint16_t* WeightRow(int row)       row of a tile; those of 16 rows belong together
//   const float* Row(int column)                  activations of few rows, null: no such row
//   const std::uint16_t* RoundedRow(int column)   those of tiles, as RoundedPlace has them, or null
//   void Store<n>(int tile, int column, d)        what a lane has of 16 weight rows and n times 8
//                                                 columns, d[4 i] to d[4 i + 3] as MmaFp16 has
//                                                 them; `column` is that of d[0]
//   kAtOnce                                       the n that it likes, a power of 2
#pragma once

#include "ops/cuda/linear.h"
#include "ops/cuda/mma.cuh"

namespace kv8::cuda {

inline constexpr int kProductPiece = 32;
/// Values of a weight row that are copied at a time: 128 bytes.
inline constexpr int kProductStage = 2 * kProductPiece;
inline constexpr int kStageVectors = kProductStage * 2 / 16;  // 16 bytes each

/// Two neighbouring weights as FP16.
template <WeightFormat kFormat>
__device__ __forceinline__ unsigned WeightPair(unsigned pair) {
  if constexpr (kFormat == WeightFormat::kFp16) {
    return pair;
  } else {
    return PackHalf2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
  }
}

/// Operand a of a block of 16, block 0 or 1 of a piece. Lane 4 g + t holds 16 bytes of the piece,
/// those from value 8 t on, of rows g (`above`) and g + 8 (`below`).
template <WeightFormat kFormat>
__device__ __forceinline__ void WeightFragment(unsigned* fragment, const uint4& above,
                                               const uint4& below, int block) {
  fragment[0] = WeightPair<kFormat>(block == 0 ? above.x : above.z);
  fragment[1] = WeightPair<kFormat>(block == 0 ? below.x : below.z);
  fragment[2] = WeightPair<kFormat>(block == 0 ? above.y : above.w);
  fragment[3] = WeightPair<kFormat>(block == 0 ? below.y : below.w);
}

/// Where a stage of weight rows has vector `vector` of row `row`, in vectors: lanes that read the
/// same piece of eight rows meet no bank twice.
__device__ __forceinline__ int StagePlace(int row, int vector) {
  return row * kStageVectors + (vector ^ ((row & 1) << 2));
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

/// Where rounded activations have value k of a row: a block's values lie side by side, in the order
/// in which operand b takes them.
__device__ __forceinline__ int RoundedPlace(int k) {
  const int t = k % kProductPiece / 8, block = k % 8 / 4, i = k % 4;
  return k / kProductPiece * kProductPiece + 16 * block + 8 * (i / 2) + 2 * t + i % 2;
}

/// Stores values k to k + 3 of a row of rounded activations; k is a multiple of 4. The lower parts,
/// of two, are `plane` values behind.
__device__ __forceinline__ void StoreRounded(std::uint16_t* row, int k, const float4& v, int parts,
                                             std::int64_t plane) {
  const SplitActivations split(v);
  std::uint16_t* const to = row + RoundedPlace(k);
  reinterpret_cast<unsigned*>(to)[0] = split.high.x;
  reinterpret_cast<unsigned*>(to)[4] = split.high.y;
  if (parts == 1) return;
  reinterpret_cast<unsigned*>(to + plane)[0] = split.low.x;
  reinterpret_cast<unsigned*>(to + plane)[4] = split.low.y;
}

/// The same for one value.
__device__ __forceinline__ void StoreRounded(std::uint16_t* row, int k, float value, int parts,
                                             std::int64_t plane) {
  std::uint16_t* const to = row + RoundedPlace(k);
  const __half high = __float2half_rn(value);
  to[0] = __half_as_ushort(high);
  if (parts == 2) to[plane] = __half_as_ushort(__float2half_rn(value - __half2float(high)));
}

}  // namespace kv8::cuda
