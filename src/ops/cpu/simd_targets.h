// Which instruction sets the SIMD ops are compiled for. Include before any Highway header.
#pragma once

// On x86 that leaves SSE4, AVX2, AVX-512 (Skylake) and the baseline, whose vectors have one lane:
// SSSE3 would add compile time for machines that nobody runs a model on. Other architectures keep
// Highway's own list.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
