// The best selection blocks of a stream of scores.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

namespace kv8 {

/// Keeps the `budget` best of the blocks offered in ascending order: higher scores first, ties to
/// the lower block. Scores are >= 0, or -1 where a NaN was. Holds at most twice the budget and
/// halves by selection, so nearly all blocks of a long stream are refused by one comparison.
class TopBlocks {
 public:
  /// `storage` has room for 2 * budget keys.
  TopBlocks(std::span<std::int64_t> storage, std::int64_t budget)
      : keys_(storage.data()), budget_(budget) {}

  /// Scores up to this one cannot be among the best: a tie would be a higher block.
  float threshold() const { return threshold_; }

  /// Refuses every score below `floor`, which at least `budget` of the coming scores reach.
  void RefuseBelow(float floor) {
    threshold_ = std::nextafter(floor, -std::numeric_limits<float>::infinity());
  }

  void Offer(float score, std::int32_t block) {
    keys_[size_++] = Key(score, block);
    if (size_ == 2 * budget_) Shrink();
  }

  /// Writes the best blocks in ascending order and returns how many.
  std::int32_t Take(std::int32_t* out) {
    if (size_ > budget_) Shrink();
    for (std::int64_t i = 0; i < size_; ++i) out[i] = Block(keys_[i]);
    std::sort(out, out + size_);
    return static_cast<std::int32_t>(size_);
  }

 private:
  /// Orders like (score, -block): floats >= 0 order like their bits, and -1's are negative.
  static std::int64_t Key(float score, std::int32_t block) {
    const std::int64_t high = std::bit_cast<std::int32_t>(score);
    return high * (std::int64_t{1} << 32) + (std::numeric_limits<std::int32_t>::max() - block);
  }
  static std::int32_t Block(std::int64_t key) {
    return std::numeric_limits<std::int32_t>::max() - static_cast<std::int32_t>(key & 0xFFFFFFFF);
  }
  static float Score(std::int64_t key) {
    return std::bit_cast<float>(static_cast<std::int32_t>(key >> 32));
  }

  void Shrink() {
    std::nth_element(keys_, keys_ + budget_ - 1, keys_ + size_, std::greater<>());
    size_ = budget_;
    threshold_ = Score(keys_[budget_ - 1]);
  }

  std::int64_t* keys_;
  std::int64_t budget_;
  std::int64_t size_ = 0;
  float threshold_ = -std::numeric_limits<float>::infinity();
};

}  // namespace kv8
