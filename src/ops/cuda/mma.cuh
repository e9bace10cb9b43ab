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

#if __CUDA_ARCH__ >= 750
/// Four 8 x 8 matrices of 16 bits from shared memory: of two operands b of MmaFp16, both registers
/// each. Lane 8 m + r gives the shared address of row r of matrix m.
__device__ __forceinline__ void LoadMatrices(unsigned (&matrices)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}
/// Four 8 x 8 matrices of 16 bits, transposed, from shared memory: two operands b of MmaFp16. Lane
/// 8 m + r gives the shared address of row r of matrix m.
__device__ __forceinline__ void LoadTransposed(unsigned (&matrices)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(row)
               : "memory");
}
#endif

/// One FP32 value as an operand of MmaFp32: split once, used for many products.
struct Fp32Operand {
#if __CUDA_ARCH__ >= 800
  static constexpr unsigned kTf32Bits = 0xFFFFE000u;
  unsigned high, low;  // TF32, together 21 bits
#else
  float value;
#endif

  Fp32Operand() = default;
  __device__ __forceinline__ explicit Fp32Operand(float x) {
#if __CUDA_ARCH__ >= 800
    // Cut off, not rounded: what is left is exact, and conversions are slow.
    high = Bits(x) & kTf32Bits;
    low = Bits(x - __uint_as_float(high)) & kTf32Bits;
#else
    value = x;
#endif
  }
};

/// d += a . b for one 16 x 8 x 8 product of FP32 values, to about FP32's precision and in its
/// range.
///
/// Lane = 4 g + t; d as in MmaFp16.
///   a[0]: row g,     k = t        b[0]: k = t,     column g
///   a[1]: row g + 8, k = t        b[1]: k = t + 4, column g
///   a[2]: row g,     k = t + 4
///   a[3]: row g + 8, k = t + 4
///
/// From sm_80 on three products of TF32 parts; below, values travel by shuffles.
__device__ __forceinline__ void MmaFp32(float (&d)[4], const Fp32Operand (&a)[4],
                                        const Fp32Operand (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  const auto multiply = [&d](unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                             unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  };
  multiply(a[0].low, a[1].low, a[2].low, a[3].low, b[0].high, b[1].high);
  multiply(a[0].high, a[1].high, a[2].high, a[3].high, b[0].low, b[1].low);
  multiply(a[0].high, a[1].high, a[2].high, a[3].high, b[0].high, b[1].high);
#else
  const int quad = Lane() & ~3, column = (Lane() & 3) * 8;
#pragma unroll 1  // or hundreds of products become more code than the assembler can take
  for (int source = 0; source < 4; ++source) {
    float row[4], left[2], right[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) row[i] = __shfl_sync(kFullWarp, a[i].value, quad + source);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      left[i] = __shfl_sync(kFullWarp, b[i].value, column + source);
      right[i] = __shfl_sync(kFullWarp, b[i].value, column + 4 + source);
    }
    d[0] = fmaf(row[2], left[1], fmaf(row[0], left[0], d[0]));
    d[1] = fmaf(row[2], right[1], fmaf(row[0], right[0], d[1]));
    d[2] = fmaf(row[3], left[1], fmaf(row[1], left[0], d[2]));
    d[3] = fmaf(row[3], right[1], fmaf(row[1], right[0], d[3]));
  }
#endif
}

}  // namespace kv8::cuda
