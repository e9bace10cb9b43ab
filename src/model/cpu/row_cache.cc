#include "model/cpu/row_cache.h"

#include <algorithm>
#include <cstring>

namespace kv8 {
namespace {

/// Spreads keys that follow each other (the finaliser of SplitMix64).
std::uint64_t Mix(std::uint64_t key) {
  key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
  key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
  return key ^ (key >> 31);
}

}  // namespace

std::int64_t RowCache::CountOf(std::int64_t budget, std::int64_t row_bytes) {
  const std::int64_t count = budget / PlaceBytes(row_bytes);
  return count < kWays ? count : count / kWays * kWays;
}

std::int64_t RowCache::BytesOf(std::int64_t budget, std::int64_t row_bytes) {
  return CountOf(budget, row_bytes) * PlaceBytes(row_bytes);
}

RowCache::RowCache(std::int64_t budget, std::int64_t row_bytes)
    : row_bytes_(row_bytes),
      places_(static_cast<std::size_t>(CountOf(budget, row_bytes))),
      ways_(std::min<std::size_t>(places_.size(), kWays)),
      rows_(std::make_unique_for_overwrite<std::byte[]>(places_.size() *
                                                        static_cast<std::size_t>(row_bytes))) {}

std::size_t RowCache::FirstOf(std::uint64_t key) const {
  return Mix(key) % (places_.size() / ways_) * ways_;
}

const std::byte* RowCache::Find(std::uint64_t key) {
  if (places_.empty()) return nullptr;
  const std::size_t first = FirstOf(key);
  for (std::size_t i = first; i < first + ways_; ++i) {
    if (places_[i].key != key) continue;
    places_[i].used = ++clock_;
    return rows_.get() + i * static_cast<std::size_t>(row_bytes_);
  }
  return nullptr;
}

void RowCache::Put(std::uint64_t key, const std::byte* row, std::int64_t bytes) {
  if (places_.empty()) return;
  const auto first = places_.begin() + static_cast<std::ptrdiff_t>(FirstOf(key));
  const auto oldest =
      std::min_element(first, first + static_cast<std::ptrdiff_t>(ways_),
                       [](const Place& a, const Place& b) { return a.used < b.used; });
  *oldest = {key, ++clock_};
  std::memcpy(rows_.get() + (oldest - places_.begin()) * row_bytes_, row,
              static_cast<std::size_t>(bytes));
}

}  // namespace kv8
