// The index store. Few rows complete a selection block, so only the norm and rotation are worth
// vectors, and those are an op of their own.
#include <algorithm>

#include "ops/cpu/kv_element.h"
#include "ops/cpu/scratch_plan.h"
#include "ops/cpu/simd.h"

namespace kv8::simd {
namespace {

/// A selection block that this call completed.
struct CompletedBlock {
  const QsaSlice* slice;
  std::int64_t number;
};

/// All of them.
struct CompletedBlocks {
  Matrix means;             // [count,index_dim]
  CompletedBlock* blocks;   // [count]
  std::int64_t* positions;  // [count], of their first tokens
};

CompletedBlocks TakeBlocks(Arena& arena, std::int64_t count, std::int64_t dim) {
  return {Matrix(arena.Take<float>(count * dim), count, dim), arena.Take<CompletedBlock>(count),
          arena.Take<std::int64_t>(count)};
}

/// How many selection blocks the slices' rows complete.
std::int64_t CountCompleted(const QsaConfig& config, std::span<const QsaSlice> slices) {
  std::int64_t count = 0;
  for (const QsaSlice& slice : slices) {
    count += (slice.first_position + slice.row_count) / config.selection_block_tokens -
             slice.first_position / config.selection_block_tokens;
  }
  return count;
}

/// mean[i] over the ring's tokens [first, first + selection_block_tokens), added in token order.
void MeanOfRing(const QsaConfig& config, const QsaSlice& slice, std::int64_t first, float* mean) {
  std::fill_n(mean, config.index_dim, 0.0f);
  for (std::int64_t token = first; token < first + config.selection_block_tokens; ++token) {
    const float* raw = slice.index_ring.data() + token % kIndexRingTokens * config.index_dim;
    for (int i = 0; i < config.index_dim; ++i) mean[i] += raw[i];
  }
  const auto count = static_cast<float>(config.selection_block_tokens);
  for (int i = 0; i < config.index_dim; ++i) mean[i] /= count;
}

void StoreKey(const QsaSlice& slice, std::int64_t block, std::span<const float> key) {
  const KvDType dtype = slice.index.layout.fp32 ? KvDType::kFp32 : KvDType::kFp16;
  std::byte* const to = slice.index.At(block);
  for (std::size_t i = 0; i < key.size(); ++i) {
    StoreKvElement(dtype, key[i], 1.0f, to, static_cast<std::int64_t>(i));
  }
}

}  // namespace

ScratchSize IndexStoreScratch(const OpSizes& sizes) {
  if (sizes.qsa.selection_block_tokens == 0) return {};
  // Any row may complete a block, then every selection_block_tokens of the same sequence one more.
  const std::int64_t ends = std::min(sizes.sequences, sizes.rows);
  Arena shared;
  TakeBlocks(shared, ends + (sizes.rows - ends) / sizes.qsa.selection_block_tokens,
             sizes.qsa.index_dim);
  return {shared.bytes(), HeadNormRopeScratch(sizes).per_thread};
}

void IndexStore(const OpContext& ctx, const QsaConfig& config, ConstMatrix raw,
                const HeadNormRope& rope, std::span<const QsaSlice> slices) {
  const std::int64_t count = CountCompleted(config, slices);
  Arena shared = ctx.scratch.shared;
  const CompletedBlocks completed = TakeBlocks(shared, count, config.index_dim);
  std::int64_t found = 0;
  for (const QsaSlice& slice : slices) {
    for (std::int64_t t = 0; t < slice.row_count; ++t) {
      const std::int64_t position = slice.first_position + t;
      const float* const from = raw.data + (slice.row_begin + t) * raw.stride;
      std::copy_n(from, config.index_dim,
                  slice.index_ring.data() + position % kIndexRingTokens * config.index_dim);
      if ((position + 1) % config.selection_block_tokens != 0) continue;
      const std::int64_t first = position + 1 - config.selection_block_tokens;
      MeanOfRing(config, slice, first, completed.means.row(found).data());
      completed.blocks[found] = {&slice, position / config.selection_block_tokens};
      completed.positions[found++] = first;
    }
  }
  if (count == 0) return;
  ApplyHeadNormRope(ctx, completed.means, 1, config.index_dim, rope,
                    {completed.positions, static_cast<std::size_t>(count)}, completed.means);
  for (std::int64_t i = 0; i < count; ++i) {
    const CompletedBlock& block = completed.blocks[i];
    StoreKey(*block.slice, block.number, completed.means.row(i));
  }
}

}  // namespace kv8::simd
