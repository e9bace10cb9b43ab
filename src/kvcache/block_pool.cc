#include "kvcache/block_pool.h"

#include <fmt/format.h>

#include <cassert>

namespace kv8 {

BlockPool::BlockPool(std::int64_t blocks) : holders_(static_cast<std::size_t>(blocks)) {
  free_.reserve(static_cast<std::size_t>(blocks));
  for (std::int64_t id = blocks; id-- > 0;) free_.push_back(static_cast<BlockId>(id));
}

Result<std::vector<BlockId>> BlockPool::Allocate(std::int64_t count) {
  if (count > free_count()) {
    return Error{Code::kResourceExhausted,
                 fmt::format("{} blocks of {} tokens needed, {} of {} are free", count,
                             kBlockTokens, free_count(), capacity()),
                 "K/V cache", "shorten the request or give the cache more memory"};
  }
  std::vector<BlockId> taken(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - static_cast<std::size_t>(count));
  Retain(taken);
  return taken;
}

void BlockPool::Retain(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) ++holders_[static_cast<std::size_t>(block)];
}

void BlockPool::Free(std::span<const BlockId> blocks) {
  for (std::size_t i = blocks.size(); i-- > 0;) {
    int& holders = holders_[static_cast<std::size_t>(blocks[i])];
    assert(holders > 0);
    if (--holders == 0) free_.push_back(blocks[i]);
  }
}

}  // namespace kv8
