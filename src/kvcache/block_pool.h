// Which blocks of the pools are free. Knows ids only, never memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kv8/error.h"
#include "kvcache/layout.h"

namespace kv8 {

/// Hands out block ids in ascending order at first, then most recently freed first.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t blocks);

  std::int64_t capacity() const { return capacity_; }
  std::int64_t free_count() const { return static_cast<std::int64_t>(free_.size()); }

  /// Errors: kResourceExhausted with both numbers; then nothing is taken.
  Result<std::vector<BlockId>> Allocate(std::int64_t count);
  /// Gives ids back that Allocate handed out.
  void Free(std::span<const BlockId> blocks);

 private:
  std::int64_t capacity_;
  std::vector<BlockId> free_;  // back is next
};

}  // namespace kv8
