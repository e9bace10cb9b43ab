// Sparse attention over chosen selection blocks.
#pragma once

#include "ops/cuda/device_types.h"

namespace kv8::cuda {

/// Selection blocks of one split, at most: a row's work is cut by its own number of blocks alone,
/// so its result does not depend on its neighbours.
inline constexpr std::int32_t kBlocksPerSplit = 129;

/// Splits that a row with the full budget and an open tail has.
inline constexpr std::int32_t MaxAttentionSplits(std::int32_t budget_selection_blocks) {
  return (budget_selection_blocks + 1 + kBlocksPerSplit - 1) / kBlocksPerSplit;
}

/// Dynamic shared memory of a launch. K and V of one unit of work land in it, 2 * head_dim bytes of
/// each thread by element size; before sm_80, where copies do not run ahead, K and V take turns in
/// half of it.
inline constexpr std::int32_t AttentionRingBytes(std::int32_t head_dim, KvElement type,
                                                 bool run_ahead) {
  const std::int32_t bytes = head_dim * (type == KvElement::kFp16 ? 2 : 1) / (run_ahead ? 1 : 2);
  return bytes < 160
             ? 160
             : bytes;  // the thread block's output takes its place, 16 * (9/8 head_dim + 16)
}
inline constexpr std::int32_t AttentionSharedBytes(std::int32_t head_dim, KvElement type,
                                                   bool run_ahead) {
  return 16 * head_dim * 2 + 4 * 32 * 16 + (kBlocksPerSplit + 1) * 8 + (16 + 2 * 4 * 16 + 16) * 4 +
         16 + AttentionRingBytes(head_dim, type, run_ahead) * 128;
}

/// The contract of ops/qsa.h (SparseAttention).
///
/// Shapes   T = rows.count, D = kv.head_dim
/// Limits   selection_block_tokens 4; D 64, 128 or 256; at most 16 query heads per K/V head
/// Numbers  q rounded to FP16 relative to its head's largest magnitude, softmax numerators rounded
/// to
///          FP16; products summed in FP32; partial results FP32, merged in the order of their
///          tokens' place in the selection.
/// Effects  writes out (zeros for a row that sees no token), not for padding rows; scratch is
///          overwritten; tickets must be zero before the first call and are zero after every call.
struct SparseAttentionArgs {
  RowsView rows;
  PageTables tables;
  KvPoolView kv;
  std::int32_t query_heads;
  std::int32_t selection_block_tokens;
  std::int32_t budget_selection_blocks;
  const float* query;  // [T,query_heads,D]
  const float* gate;   // head h of row t at t * gate_stride + h * gate_head_stride, 16-byte aligned
  std::int64_t gate_stride;
  std::int64_t gate_head_stride;
  const std::int32_t* blocks;  // [T,budget_selection_blocks] ascending, the first counts[t] valid
  const std::int32_t* counts;  // [T]
  float* partials;             // [T,kv_heads,splits,query_heads/kv_heads,D]
  float* softmax;              // [T,kv_heads,splits,query_heads/kv_heads,2]: maximum, sum
  std::int32_t* tickets;       // [T,kv_heads]
  float* out;                  // [T,query_heads,D]
};

/// Bytes of partials, softmax and tickets for T rows, in this order and each rounded up to 256.
struct SparseAttentionScratch {
  std::int64_t partials, softmax, tickets;
};
inline constexpr SparseAttentionScratch SparseAttentionScratchBytes(
    std::int64_t rows, std::int64_t query_heads, std::int64_t kv_heads, std::int64_t head_dim,
    std::int32_t budget_selection_blocks) {
  const std::int64_t vectors = rows * query_heads * MaxAttentionSplits(budget_selection_blocks);
  return {(vectors * head_dim * 4 + 255) / 256 * 256, (vectors * 8 + 255) / 256 * 256,
          (rows * kv_heads * 4 + 255) / 256 * 256};
}

}  // namespace kv8::cuda
