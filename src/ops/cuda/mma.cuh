// Matrix units: one fragment layout on every architecture.
#pragma once

#include "ops/cuda/common.cuh"

namespace kv8::cuda {

/// d += a . b for one 16 x 8 x 16 product of FP16 values, summed in FP32.
///
/// Lane = 4 g + t. Element pairs of a register are neighbours in k, the lower in the low half.
///   a[0]: row g,     k = 2t, 2t+1        b[0]: k = 2t, 2t+1    column g
///   a[1]: row g + 8, k = 2t, 2t+1        b[1]: k = 2t+8, 2t+9  column g
///   a[2]: row g,     k = 2t+8, 2t+9      d[0], d[1]: row g,     columns 2t, 2t+1
///   a[3]: row g + 8, k = 2t+8, 2t+9      d[2], d[3]: row g + 8, columns 2t, 2t+1
/// Which element stands at which k is free as long as a and b agree.
///
/// sm_80 has it as one instruction, sm_75 as two. sm_70's matrix instruction spreads a product over
/// other lanes, so there the values travel by shuffles and meet in FP32 multiply-adds.
__device__ __forceinline__ void MmaFp16(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                        unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 750
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#else
  const int quad = Lane() & ~3;         // lanes that hold rows g and g + 8 of a
  const int column = (Lane() & 3) * 8;  // first lane that holds column 2t of b; column 2t+1 is 4 on
#pragma unroll
  for (int source = 0; source < 4; ++source) {
    float2 row[4], left[2], right[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      row[i] = UnpackHalf2(__shfl_sync(kFullWarp, a[i], quad + source));
    }
    left[0] = UnpackHalf2(__shfl_sync(kFullWarp, b0, column + source));
    left[1] = UnpackHalf2(__shfl_sync(kFullWarp, b1, column + source));
    right[0] = UnpackHalf2(__shfl_sync(kFullWarp, b0, column + 4 + source));
    right[1] = UnpackHalf2(__shfl_sync(kFullWarp, b1, column + 4 + source));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 upper = row[2 * half], lower = row[2 * half + 1];
      d[0] = fmaf(upper.y, left[half].y, fmaf(upper.x, left[half].x, d[0]));
      d[1] = fmaf(upper.y, right[half].y, fmaf(upper.x, right[half].x, d[1]));
      d[2] = fmaf(lower.y, left[half].y, fmaf(lower.x, left[half].x, d[2]));
      d[3] = fmaf(lower.y, right[half].y, fmaf(lower.x, right[half].x, d[3]));
    }
  }
#endif
}

}  // namespace kv8::cuda
