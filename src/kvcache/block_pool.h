// Which blocks of the pools are free, and how many hold each of the others. Knows ids only, never
// memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv8/error.h"
#include "kvcache/layout.h"

namespace kv8 {

/// Hands out block ids in ascending order at first, then most recently freed first.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t blocks);

  std::int64_t capacity() const { return static_cast<std::int64_t>(holders_.size()); }
  std::int64_t free_count() const { return static_cast<std::int64_t>(free_.size()); }
  /// How many hold the block; 0 when it is free.
  int holders(BlockId block) const { return holders_[static_cast<std::size_t>(block)]; }

  /// Errors: kResourceExhausted with both numbers; then nothing is taken.
  Result<std::vector<BlockId>> Allocate(std::int64_t count);
  /// One more holder for each of some blocks in use.
  void Retain(std::span<const BlockId> blocks);
  /// One holder less; a block without holders is free.
  void Free(std::span<const BlockId> blocks);

 private:
  std::vector<int> holders_;
  std::vector<BlockId> free_;  // back is next
};

}  // namespace kv8
