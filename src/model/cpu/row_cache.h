// Rows that were read from a file and may be wanted again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kv8 {

/// Holds rows of up to `row_bytes` in memory that is taken once. A row has a few places that it may
/// be in; the one used longest ago makes room.
class RowCache {
 public:
  /// Takes at most `budget` bytes, and none if they hold no row.
  RowCache(std::int64_t budget, std::int64_t row_bytes);
  /// What bytes() will be.
  static std::int64_t BytesOf(std::int64_t budget, std::int64_t row_bytes);

  std::int64_t bytes() const { return std::ssize(places_) * PlaceBytes(row_bytes_); }
  /// The row of this key, until the next Put; null: it is not here.
  const std::byte* Find(std::uint64_t key);
  /// Keeps a row that is not here.
  void Put(std::uint64_t key, const std::byte* row, std::int64_t bytes);

 private:
  struct Place {
    std::uint64_t key = ~std::uint64_t{0};
    std::uint64_t used = 0;  // when, by clock_; 0: empty
  };
  static constexpr std::int64_t kWays = 8;
  static std::int64_t PlaceBytes(std::int64_t row_bytes) {
    return row_bytes + static_cast<std::int64_t>(sizeof(Place));
  }
  static std::int64_t CountOf(std::int64_t budget, std::int64_t row_bytes);
  /// The first of the places that the key may be in.
  std::size_t FirstOf(std::uint64_t key) const;

  const std::int64_t row_bytes_;
  std::vector<Place> places_;
  std::size_t ways_;
  std::unique_ptr<std::byte[]> rows_;  // not touched before it is used
  std::uint64_t clock_ = 0;
};

}  // namespace kv8
