// An open-addressing hash map from 64-bit keys, filled once and then only read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kv8 {

/// Spreads the bits of `x` so that its low bits can index a power-of-two table.
constexpr std::uint64_t MixBits(std::uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  return x ^ x >> 32;
}

/// Linear probing at a load of at most one half. Keys are anything but kNoKey.
template <class Value>
class FlatMap {
 public:
  static constexpr std::uint64_t kNoKey = ~std::uint64_t{0};

  /// A map for at most `capacity` keys.
  explicit FlatMap(std::size_t capacity = 0)
      : slots_(std::bit_ceil(2 * capacity + 2)), mask_(slots_.size() - 1) {}

  /// False, and no change, when `key` is there already.
  bool Insert(std::uint64_t key, Value value) {
    Slot& slot = slots_[SlotOf(key)];
    if (slot.key == key) return false;
    slot = {key, value};
    return true;
  }

  const Value* Find(std::uint64_t key) const {
    const Slot& slot = slots_[SlotOf(key)];
    return slot.key == key ? &slot.value : nullptr;
  }
  Value* Find(std::uint64_t key) { return const_cast<Value*>(std::as_const(*this).Find(key)); }

 private:
  struct Slot {
    std::uint64_t key = kNoKey;
    Value value{};
  };

  /// The slot that holds `key`, or the free one where it belongs.
  std::size_t SlotOf(std::uint64_t key) const {
    std::size_t i = MixBits(key) & mask_;
    while (slots_[i].key != key && slots_[i].key != kNoKey) i = (i + 1) & mask_;
    return i;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace kv8
