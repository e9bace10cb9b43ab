// What kernels share: their beginning, warp sums, activations, FP16 and E4M3 conversions.
//
// __CUDA_ARCH__ picks the form of an operation, mostly here or in mma.cuh, and how much work is
// under way at a time: how far sums are unrolled, whether copies run ahead. One kernel is missing
// on old architectures: the attention of prompts, whose rows go through decode's there. All others
// compute the same in the same order everywhere.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda/device_types.h"
#include "tensor/weight.h"

namespace kv8::cuda {

inline constexpr unsigned kFullWarp = 0xFFFFFFFFu;

__device__ __forceinline__ int Lane() {
  return static_cast<int>(threadIdx.x & 31u);
}
__device__ __forceinline__ int Warp() {
  return static_cast<int>(threadIdx.x >> 5);
}

/// Every kernel's first statement, at most behind PrefetchWeights, by every thread. From sm_90 on a
/// kernel may begin before earlier ones of its stream have ended (DeviceStream::Launch); this waits
/// until what they wrote can be read. Before it a kernel uses its arguments and no memory, and does
/// not return: a kernel that ended before an earlier one would let the next one go on without that
/// earlier one's results. scripts/compile_device.py looks for it. Nor is anything that a kernel
/// wrote read by __ldg, which is for memory that is not written from a kernel's beginning on.
__device__ __forceinline__ void AfterEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Starts to bring the 128 bytes around `global` to the second-level cache.
__device__ __forceinline__ void PrefetchToL2(const void* global) {
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(global)));
}

/// The codes of a weight of 16-bit elements.
__device__ __forceinline__ const std::uint16_t* Codes16(const Weight& weight) {
  return reinterpret_cast<const std::uint16_t*>(weight.codes);
}

/// Sum over the warp, in every lane; the tree's order is fixed.
__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kFullWarp, x, offset);
  return x;
}
__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, offset));
  }
  return x;
}

__device__ __forceinline__ float Sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}
__device__ __forceinline__ float Silu(float x) {
  return x / (1.0f + expf(-x));
}
/// log(1 + e^x) without overflow.
__device__ __forceinline__ float Softplus(float x) {
  return x > 20.0f ? x : log1pf(expf(x));
}

__device__ __forceinline__ float Infinity() {
  return __int_as_float(0x7F800000);
}
__device__ __forceinline__ unsigned Bits(float x) {
  return __float_as_uint(x);
}

// ---- FP16 -------------------------------------------------------------------------------------

/// EncodeFp16 of numeric/half.h, NaN payloads included.
__device__ __forceinline__ unsigned EncodeFp16(float x) {
  const unsigned magnitude = Bits(x) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) {
    return ((Bits(x) >> 16) & 0x8000u) | 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  }
  return __half_as_ushort(__float2half_rn(x));
}

__device__ __forceinline__ unsigned PackHalf2(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ float2 UnpackHalf2(unsigned pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

// ---- E4M3 -------------------------------------------------------------------------------------

/// EncodeE4M3 of numeric/e4m3.h, bit for bit. Integer steps on every architecture: the hardware's
/// conversion drops the sign of NaN.
__device__ __forceinline__ unsigned EncodeE4M3(float x) {
  const unsigned sign = (Bits(x) >> 24) & 0x80u;
  const unsigned magnitude = Bits(x) & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7Fu;
  if (magnitude >= 0x43E00000u) return sign | 0x7Eu;
  if (magnitude < 0x3C800000u) {
    // Below 2^-6: adding 2^14 leaves the rounded multiple of 2^-9 in the low bits.
    return sign | (Bits(__uint_as_float(magnitude) + 16384.0f) - 0x46800000u);
  }
  const unsigned rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return sign | ((rounded - 0x3C000000u) >> 20);
}

/// What E4M3ToHalf2 leaves to be multiplied in: callers fold it into a scale.
#if __CUDA_ARCH__ >= 890
inline constexpr float kE4M3Unit = 1.0f;
#else
inline constexpr float kE4M3Unit = 256.0f;
#endif

/// Two codes, those in the low 16 bits or with kHigh the others, as FP16 values / kE4M3Unit, the
/// lower code in the low half. Exact, NaN codes give NaN (NUM-1, NUM-2).
template <bool kHigh = false>
__device__ __forceinline__ unsigned E4M3ToHalf2(unsigned codes) {
#if __CUDA_ARCH__ >= 890
  unsigned pair;
  if constexpr (kHigh) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high; }"
        : "=r"(pair)
        : "r"(codes));
  } else {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(codes)));
  }
  return pair;
#else
  // Each code in the upper byte of its half.
  const unsigned wide = __byte_perm(codes, 0u, kHigh ? 0x3424 : 0x1404);
  const unsigned pattern = (wide & 0x80008000u) | ((wide & 0x7F007F00u) >> 1);
  // A NaN code's pattern is the number 1.875 (0x3F80): adding one 0x80 carries it, and nothing
  // else, into bit 14, which no pattern uses.
  const unsigned carried = ((pattern & 0x3FFF3FFFu) + 0x00800080u) & 0x40004000u;
  return pattern | carried | (carried >> 1) | (carried >> 2);  // 0x7F80: exponent all ones
#endif
}

// ---- copies to shared memory ------------------------------------------------------------------
//
// Before sm_80 the copy is done when the call returns, and groups need no waiting.

/// An address of shared memory, as instructions take it.
__device__ __forceinline__ unsigned SharedAddress(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/// Starts to copy 16 bytes to a shared address.
__device__ __forceinline__ void CopyToShared16(unsigned to, const unsigned char* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
#else
  const uint4 v = __ldg(reinterpret_cast<const uint4*>(from));
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
#endif
}
/// The same of zeros, so that whoever waits for copies waits for them too; `from` is not read.
__device__ __forceinline__ void ZeroShared16(unsigned to, const unsigned char* from) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, 0;" : : "r"(to), "l"(from) : "memory");
#else
  asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" : : "r"(to), "r"(0) : "memory");
#endif
}

/// Starts to copy 16 bytes, or writes zeros when not `valid`; then `from` is not read.
__device__ __forceinline__ void CopyToShared16(void* to, const unsigned char* from, bool valid) {
#if __CUDA_ARCH__ >= 800
  const unsigned address = SharedAddress(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
#else
  *static_cast<uint4*>(to) =
      valid ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
#endif
}
/// Ends a group of copies.
__device__ __forceinline__ void CommitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most kLater groups after the one that is needed are under way.
template <int kLater>
__device__ __forceinline__ void WaitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" : : "n"(kLater) : "memory");
#endif
}

// ---- K/V pools --------------------------------------------------------------------------------

/// Bytes of one stored element.
template <KvElement kType>
inline constexpr int kElementBytes = kType == KvElement::kFp16 ? 2 : 1;

/// Offset in a K/V pool of the vector of (page, side, head, token in page).
__device__ __forceinline__ std::int64_t KvOffset(int kv_heads, int token_bytes, int page, int side,
                                                 int head, int token) {
  const std::int64_t page_bytes = std::int64_t{2} * kv_heads * kPageTokens * token_bytes;
  return page * page_bytes +
         (static_cast<std::int64_t>(side * kv_heads + head) * kPageTokens + token) * token_bytes;
}

}  // namespace kv8::cuda
