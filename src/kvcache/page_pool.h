// Which pages of the pools are free, and how many hold each of the others. Knows ids only, never
// memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv8/error.h"
#include "kvcache/layout.h"

namespace kv8 {

/// Hands out page ids in ascending order at first, then most recently freed first.
class PagePool {
 public:
  explicit PagePool(std::int64_t pages);

  std::int64_t capacity() const { return static_cast<std::int64_t>(holders_.size()); }
  std::int64_t free_count() const { return static_cast<std::int64_t>(free_.size()); }
  /// How many hold the page; 0 when it is free.
  int holders(PageId page) const { return holders_[static_cast<std::size_t>(page)]; }

  /// Errors: kResourceExhausted with both numbers; then nothing is taken.
  Result<std::vector<PageId>> Allocate(std::int64_t count);
  /// One more holder for each of some pages in use.
  void Retain(std::span<const PageId> pages);
  /// One holder less; a page without holders is free.
  void Free(std::span<const PageId> pages);

 private:
  std::vector<int> holders_;
  std::vector<PageId> free_;  // back is next
};

}  // namespace kv8
