#include "kvcache/block_pool.h"

#include <fmt/format.h>

#include <cassert>

namespace kv8 {

BlockPool::BlockPool(std::int64_t blocks) : capacity_(blocks) {
  free_.reserve(static_cast<std::size_t>(blocks));
  for (std::int64_t id = blocks; id-- > 0;) free_.push_back(static_cast<BlockId>(id));
}

Result<std::vector<BlockId>> BlockPool::Allocate(std::int64_t count) {
  if (count > free_count()) {
    return Error{Code::kResourceExhausted,
                 fmt::format("{} blocks of {} tokens needed, {} of {} are free", count,
                             kBlockTokens, free_count(), capacity_),
                 "K/V cache", "shorten the request or give the cache more memory"};
  }
  std::vector<BlockId> taken(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - static_cast<std::size_t>(count));
  return taken;
}

void BlockPool::Free(std::span<const BlockId> blocks) {
  assert(free_count() + static_cast<std::int64_t>(blocks.size()) <= capacity_);
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
}

}  // namespace kv8
