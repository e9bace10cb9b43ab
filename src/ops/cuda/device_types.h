// What host code hands to kernels: plain structs of device pointers. Compiled by the host's
// compiler, by nvcc and by NVRTC, so it includes nothing but fixed-width integers.
#pragma once

#include <cstdint>

namespace kv8::cuda {

/// How the elements of a K/V pool are stored. Index keys are FP16 in both cases.
enum class KvElement : int { kFp16, kE4M3 };

/// Rows of a batch. Rows of one sequence are neighbours, ascending by position.
struct RowsView {
  const std::int32_t* sequence;  // [T] line of the page tables, rings and states;
                                 // -1: padding, which no op reads for or writes for
  const std::int64_t* position;  // [T]
  std::int32_t count;            // T
};

/// Page tables of all sequences, [sequences, stride]: docs/spec/kv-page.md.
struct PageTables {
  const std::int32_t* pages;
  std::int64_t stride;
};

/// K/V pool of one layer: docs/spec/kv-page.md.
struct KvPoolView {
  unsigned char* data;
  KvElement type;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  float k_scale;  // 1 unless type is kE4M3
  float v_scale;
};

/// Index pool of one layer: docs/spec/kv-page.md.
struct IndexPoolView {
  std::uint16_t* data;  // FP16
  std::int32_t index_dim;
};

inline constexpr std::int32_t kPageTokens = 64;           // of kv8/types.h
inline constexpr std::int32_t kRingTokens = 16;           // kIndexRingTokens of kvcache/layout.h
inline constexpr std::int32_t kSelectionBlockTokens = 4;  // the only width that kernels read

}  // namespace kv8::cuda
