// Which instruction sets the SIMD ops are compiled for. Include before any Highway header.
#pragma once

// On x86 that leaves SSE4, AVX2, AVX-512 (Skylake) and the baseline, whose vectors have one lane:
// SSSE3 would add compile time for machines that nobody runs a model on. Arm uses NEON: kernels
// keep vectors in arrays, which the sizeless types of SVE and RVV forbid.
#define KV8_UNUSED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#ifdef KV8_SANITIZED
// Sanitizers see one vector form and the baseline: instrumented kernels take minutes to compile.
#define HWY_DISABLED_TARGETS (KV8_UNUSED_TARGETS | HWY_SSE4 | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS KV8_UNUSED_TARGETS
#endif
