// The head of a unit's file. Body: pages, then state, each padded to IoBuffer::kBytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kv8/error.h"
#include "kvtier/kv_unit.h"

namespace kv8 {

/// What the head says.
struct UnitHead {
  std::string binding;  // see KeysOf; 64 hex digits, as all keys and hashes here
  UnitName name;
  UnitLayout layout;
  std::string body_sha256;  // of pages and state, without padding

  std::int64_t page_bytes() const { return name.pages() * layout.page_bytes; }
  /// Offsets in the file, and its size.
  std::int64_t state_at() const {
    return static_cast<std::int64_t>(IoBuffer::kBytes +
                                     IoBuffer::CapacityFor(static_cast<std::size_t>(page_bytes())));
  }
  std::int64_t file_bytes() const {
    return state_at() + static_cast<std::int64_t>(
                            IoBuffer::CapacityFor(static_cast<std::size_t>(layout.state_bytes)));
  }
};

/// Writes the head to IoBuffer::kBytes bytes.
void WriteUnitHead(const UnitHead& head, std::span<std::byte> to);

/// Errors: kCorrupt for anything but what WriteUnitHead writes.
Result<UnitHead> ReadUnitHead(std::span<const std::byte> bytes, const std::string& where);

/// Hash of a unit's pages and state.
std::string BodySha256(std::span<const std::byte> pages, std::span<const std::byte> state);

}  // namespace kv8
