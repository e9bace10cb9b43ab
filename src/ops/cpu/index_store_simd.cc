// The index store. Few rows complete a block, so only the norm and rotation are worth vectors, and
// those are an op of their own.
#include <algorithm>
#include <vector>

#include "ops/cpu/kv_element.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/simd.h"

namespace kv8::simd {
namespace {

/// A selectable block that this call completed.
struct CompletedBlock {
  const QsaSlice* slice;
  std::int64_t number;
};

/// How many selectable blocks the slices' rows complete.
std::int64_t CountCompleted(const QsaConfig& config, std::span<const QsaSlice> slices) {
  std::int64_t count = 0;
  for (const QsaSlice& slice : slices) {
    count += (slice.first_position + slice.row_count) / config.block_tokens -
             slice.first_position / config.block_tokens;
  }
  return count;
}

/// mean[i] over the ring's tokens [first, first + block_tokens), added in token order.
void MeanOfRing(const QsaConfig& config, const QsaSlice& slice, std::int64_t first, float* mean) {
  std::fill_n(mean, config.index_dim, 0.0f);
  for (std::int64_t token = first; token < first + config.block_tokens; ++token) {
    const float* raw = slice.index_ring.data() + token % kIndexRingTokens * config.index_dim;
    for (int i = 0; i < config.index_dim; ++i) mean[i] += raw[i];
  }
  const auto count = static_cast<float>(config.block_tokens);
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

void IndexStore(const OpContext& ctx, const QsaConfig& config, ConstMatrix raw,
                const HeadNormRope& rope, std::span<const QsaSlice> slices) {
  const std::int64_t count = CountCompleted(config, slices);
  Matrix means(Scratch(ScratchSlot::kIndex, count * config.index_dim), count, config.index_dim);
  thread_local std::vector<CompletedBlock> blocks;
  thread_local std::vector<std::int64_t> positions;
  blocks.clear();
  positions.clear();
  for (const QsaSlice& slice : slices) {
    for (std::int64_t t = 0; t < slice.row_count; ++t) {
      const std::int64_t position = slice.first_position + t;
      const float* const from = raw.data + (slice.row_begin + t) * raw.stride;
      std::copy_n(from, config.index_dim,
                  slice.index_ring.data() + position % kIndexRingTokens * config.index_dim);
      if ((position + 1) % config.block_tokens != 0) continue;
      const std::int64_t first = position + 1 - config.block_tokens;
      MeanOfRing(config, slice, first, means.row(static_cast<std::int64_t>(blocks.size())).data());
      blocks.push_back({&slice, position / config.block_tokens});
      positions.push_back(first);
    }
  }
  if (count == 0) return;
  ApplyHeadNormRope(ctx, means, 1, config.index_dim, rope, positions, means);
  for (std::int64_t i = 0; i < count; ++i) {
    const CompletedBlock& block = blocks[static_cast<std::size_t>(i)];
    StoreKey(*block.slice, block.number, means.row(i));
  }
}

}  // namespace kv8::simd
