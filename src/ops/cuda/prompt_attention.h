// Sparse attention for the rows of prompts, which share what they can of their selections.
#pragma once

#include "ops/cuda/sparse_attention.h"

namespace kv8::cuda {

/// Rows that share their selection blocks. They are aligned in their sequence, and a page of the
/// cache holds whole groups, so prompts that are cut at pages are cut at groups.
inline constexpr std::int32_t kPromptGroupRows = 8;
static_assert(kPageTokens % kPromptGroupRows == 0);

/// Rows [begin, begin + count) of a pass, all of one sequence and with one position /
/// kPromptGroupRows. Padding has groups of its own.
struct RowGroup {
  std::int32_t begin;
  std::int32_t count;
};

/// What sparse attention computes, for rows in groups.
///
/// Limits   those of sparse attention
/// Numbers  those of sparse attention, but that a row's sums are cut by what its group selects. So
///          its bits depend on the selections of its group, and on nothing else: whoever wants the
///          same bits again gives it the same group (NUM-32).
/// Effects  writes out (zeros for a row that sees no token), not for padding rows.
///          partials, softmax and tickets are for devices before sm_80, where rows go alone through
///          sparse attention.
struct PromptAttentionArgs {
  SparseAttentionArgs attention;
  std::int32_t first_row;  // of attention, in the pass
  const RowGroup* groups;
  std::int32_t group_count;  // they cover attention.rows
  std::int32_t stages;       // of the ring of blocks in shared memory; CudaOps sets it
};

inline constexpr std::int32_t kMinPromptStages = 3;
inline constexpr std::int32_t kMaxPromptStages = 16;

inline constexpr std::int32_t PromptBlockBytes(std::int32_t head_dim, KvElement type) {
  return 2 * 4 * head_dim * (type == KvElement::kFp16 ? 2 : 1);
}

/// Blocks that are copied at a time, one or two by each warp: many make few stages, each of which
/// costs the same, but several stages must fit.
inline constexpr std::int32_t PromptStageBlocks(std::int32_t head_dim, KvElement type) {
  return kPromptGroupRows * (PromptBlockBytes(head_dim, type) <= 2048 ? 2 : 1);
}

/// Entries of a group's list of blocks: what its rows select, and each row's open block; whole
/// stages.
inline constexpr std::int32_t PromptListBlocks(std::int32_t budget_selection_blocks) {
  constexpr std::int32_t kMostStageBlocks = 2 * kPromptGroupRows;
  const std::int32_t blocks = kPromptGroupRows * (budget_selection_blocks + 1);
  return (blocks + kMostStageBlocks - 1) / kMostStageBlocks * kMostStageBlocks;
}

/// What a warp keeps of its own in shared memory: queries that do not fit into registers, and then
/// 64 dimensions of the output of 16 heads.
inline constexpr std::int32_t kPromptScratchBytes = 4096;
/// And a queue of so many words: the blocks that it takes next.
inline constexpr std::int32_t kPromptQueueBlocks = 64;

/// Dynamic shared memory of a launch: the stages; a block of zeros; queries; two barriers of 8
/// bytes a stage; the list, 5 bytes an entry; a sum and a queue for each warp.
inline constexpr std::int64_t PromptSharedBytes(std::int32_t head_dim, KvElement type,
                                                std::int32_t budget_selection_blocks,
                                                std::int32_t stages) {
  const std::int64_t block = PromptBlockBytes(head_dim, type);
  return stages * PromptStageBlocks(head_dim, type) * block + block +
         kPromptGroupRows * kPromptScratchBytes + kMaxPromptStages * 16 +
         std::int64_t{5} * PromptListBlocks(budget_selection_blocks) +
         4 * kPromptGroupRows * (1 + kPromptQueueBlocks);
}

/// Stages on a device that gives a thread block `shared_bytes` of shared memory; below
/// kMinPromptStages it gives too little.
inline constexpr std::int32_t PromptStages(std::int32_t head_dim, KvElement type,
                                           std::int32_t budget_selection_blocks,
                                           std::int64_t shared_bytes) {
  std::int32_t stages = kMaxPromptStages;
  while (stages > 0 &&
         PromptSharedBytes(head_dim, type, budget_selection_blocks, stages) > shared_bytes) {
    --stages;
  }
  return stages;
}

}  // namespace kv8::cuda
