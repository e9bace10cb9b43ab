#include "kvcache/page_pool.h"

#include <fmt/format.h>

#include <cassert>

namespace kv8 {

PagePool::PagePool(std::int64_t pages) : holders_(static_cast<std::size_t>(pages)) {
  free_.reserve(static_cast<std::size_t>(pages));
  for (std::int64_t id = pages; id-- > 0;) free_.push_back(static_cast<PageId>(id));
}

Result<std::vector<PageId>> PagePool::Allocate(std::int64_t count) {
  if (count > free_count()) {
    return Error{Code::kResourceExhausted,
                 fmt::format("{} pages of {} tokens needed, {} of {} are free", count, kPageTokens,
                             free_count(), capacity()),
                 "K/V cache", "shorten the request or give the cache more memory"};
  }
  std::vector<PageId> taken(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - static_cast<std::size_t>(count));
  Retain(taken);
  return taken;
}

void PagePool::Retain(std::span<const PageId> pages) {
  for (const PageId page : pages) ++holders_[static_cast<std::size_t>(page)];
}

void PagePool::Free(std::span<const PageId> pages) {
  for (std::size_t i = pages.size(); i-- > 0;) {
    int& holders = holders_[static_cast<std::size_t>(pages[i])];
    assert(holders > 0);
    if (--holders == 0) free_.push_back(pages[i]);
  }
}

}  // namespace kv8
