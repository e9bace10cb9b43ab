// Scores of index keys and the exact choice of the best.
#pragma once

#include "ops/cuda/device_types.h"

namespace kv8::cuda {

/// The contract of ops/qsa.h (SelectBlocks), as two kernels: scores, then the choice.
///
/// Shapes   T = rows.count, Di = index.index_dim
/// Limits   selection_block_tokens 4; Di 64 or 128; at most 4 index heads;
///          max_selection_blocks a multiple of 4; positions below 2^31 - 1
/// Numbers  iq as two FP16 parts relative to its head's largest magnitude, which leaves 2^-22 of
///          that; products summed in FP32. Ties go to the lower block; NaN ranks below every
///          number.
/// Effects  writes blocks and counts, not for padding rows; scores is overwritten. Keys and scores
///          of rows that select everything they see are not touched.
struct SelectBlocksArgs {
  RowsView rows;
  PageTables tables;
  IndexPoolView index;
  std::int32_t index_heads;
  std::int32_t selection_block_tokens;
  std::int32_t budget_selection_blocks;
  std::int32_t max_selection_blocks;   // bound of those complete that any row of the call sees
  const float* index_query;            // [T,index_heads,Di]
  float* scores;                       // [T,max_selection_blocks], 16-byte aligned
  std::int32_t* blocks;                // [T,budget_selection_blocks]
  std::int32_t* counts;                // [T]
  std::int32_t keys_per_thread_block;  // of the score kernel; CudaOps sets it
};

/// keys_per_thread_block goes up to the first in steps of the second.
inline constexpr std::int32_t kMaxScoreKeys = 512;
inline constexpr std::int32_t kScoreKeyStep = 64;
/// Thread blocks of the score kernel that a multiprocessor has at once.
inline constexpr std::int32_t kScoreThreadBlocks = 6;

/// keys_per_thread_block for which the last wave of thread blocks wastes least. One takes about as
/// long as kScoreStart keys before its first. Scores do not depend on it.
inline constexpr std::int32_t ScoreKeysPerThreadBlock(std::int32_t rows,
                                                      std::int32_t max_selection_blocks,
                                                      std::int32_t multiprocessors) {
  constexpr std::int32_t kScoreStart = 128;
  std::int32_t best = 0;
  std::int64_t least = 0;
  for (std::int32_t keys = kScoreKeyStep; keys <= kMaxScoreKeys; keys += kScoreKeyStep) {
    const std::int64_t count = std::int64_t{rows} * ((max_selection_blocks + keys - 1) / keys);
    const std::int64_t at_once = std::int64_t{multiprocessors} * kScoreThreadBlocks;
    const std::int64_t time = (count + at_once - 1) / at_once * (keys + kScoreStart);
    if (best == 0 || time < least) best = keys, least = time;
  }
  return best;
}

}  // namespace kv8::cuda
