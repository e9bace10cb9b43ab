// What moves between the tiers of the K/V cache: whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace kv8 {

/// Memory that direct reads and writes of files accept: address and capacity are multiples of
/// kBytes. What is beyond its size is 0, the rest not cleared.
class IoBuffer {
 public:
  static constexpr std::size_t kBytes = 4096;

  IoBuffer() = default;
  /// Throws std::bad_alloc.
  explicit IoBuffer(std::size_t bytes);

  static std::size_t CapacityFor(std::size_t bytes) {
    return (bytes + kBytes - 1) / kBytes * kBytes;
  }
  std::size_t capacity() const { return CapacityFor(bytes_); }
  std::size_t size() const { return bytes_; }
  std::span<std::byte> bytes() { return {memory_.get(), bytes_}; }
  std::span<const std::byte> bytes() const { return {memory_.get(), bytes_}; }
  std::byte* data() { return memory_.get(); }
  const std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

/// Sizes of a unit's parts, which depend on model and cache type alone.
struct UnitLayout {
  std::int64_t page_bytes = 0;   // K/V and index keys of one page, all layers, the draft's too
  std::int64_t state_bytes = 0;  // a sequence's state, and with a draft head its last row's streams

  bool operator==(const UnitLayout&) const = default;
  std::int64_t Bytes(std::int64_t pages) const { return pages * page_bytes + state_bytes; }
};

/// Which beginning a unit belongs to.
struct UnitName {
  std::string parent;      // exact key of the pages before it
  std::string end;         // key of the pages up to its end
  std::string exact;       // the same, with the token after them
  std::int64_t first = 0;  // pages [first, last) of the prompt
  std::int64_t last = 0;

  std::int64_t pages() const { return last - first; }
};

/// Counts the memory of the units that are alive.
class UnitMemory {
 public:
  UnitMemory(std::int64_t& used, std::size_t bytes) : used_(&used), buffer_(bytes) {
    *used_ += static_cast<std::int64_t>(buffer_.capacity());
  }
  ~UnitMemory() { *used_ -= static_cast<std::int64_t>(buffer_.capacity()); }
  UnitMemory(const UnitMemory&) = delete;
  UnitMemory& operator=(const UnitMemory&) = delete;

  IoBuffer& buffer() { return buffer_; }
  const IoBuffer& buffer() const { return buffer_; }

 private:
  std::int64_t* used_;
  IoBuffer buffer_;
};

/// A run of pages of one prompt, one after the other, and the state that makes its end a place to
/// go on from. A run in the middle of a longer one may have given its state up: it is then a part
/// of the way to a later end.
struct KvUnit {
  UnitName name;
  std::unique_ptr<UnitMemory> pages;
  std::unique_ptr<UnitMemory> state;  // null: given up
  bool written = false;               // memory holds what it is to hold
};

}  // namespace kv8
