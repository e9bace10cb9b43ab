// A hash map from short byte strings to tokens.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "kv8/types.h"
#include "text/flat_map.h"

namespace kv8 {

/// Strings of 1 to kMaxBytes bytes are kept inside of the slots, so a look-up touches one cache
/// line as a rule. Linear probing at a load of at most one half.
class WholePieces {
 public:
  static constexpr TokenId kNone = -1;
  static constexpr std::size_t kMaxBytes = 15;  // and one byte of length fill two words

  /// A map for at most `capacity` strings.
  explicit WholePieces(std::size_t capacity = 0)
      : slots_(std::bit_ceil(2 * capacity + 2)), mask_(slots_.size() - 1) {}

  /// `piece` must be of 1 to kMaxBytes bytes and not in the map yet.
  void Insert(std::string_view piece, TokenId id) {
    const Key key(piece);
    slots_[SlotOf(key)] = {key, id};
  }

  /// Token of `piece`, of any length; kNone when it is not in the map.
  TokenId Find(std::string_view piece) const {
    if (piece.size() > kMaxBytes) return kNone;
    return slots_[SlotOf(Key(piece))].id;
  }

 private:
  struct Key {
    Key() = default;
    explicit Key(std::string_view piece) {
      char bytes[kMaxBytes + 1] = {};
      std::memcpy(bytes, piece.data(), piece.size());
      bytes[kMaxBytes] = static_cast<char>(piece.size());
      std::memcpy(&low, bytes, sizeof low);
      std::memcpy(&high, bytes + sizeof low, sizeof high);
    }
    bool operator==(const Key&) const = default;

    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };
  struct Slot {
    Key key;
    TokenId id = kNone;
  };

  /// The slot that holds `key`, or the free one where it belongs.
  std::size_t SlotOf(const Key& key) const {
    std::size_t i = MixBits(MixBits(key.low) ^ key.high) & mask_;
    while (slots_[i].id != kNone && slots_[i].key != key) i = (i + 1) & mask_;
    return i;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace kv8
