// What a string of the template language holds: marked bytes, and where its characters are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"

namespace kv8::jinja {

/// Bytes that the values of one rendering hold at a time. Values that are made while an account is
/// open on their thread count in it until they go, which must be before the account does.
class MemoryAccount {
 public:
  MemoryAccount();
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;

  std::size_t bytes() const { return bytes_; }
  /// The one that is open on this thread; may be null.
  static MemoryAccount* Current();

 private:
  friend class MemoryShare;
  std::size_t bytes_ = 0;
  MemoryAccount* outer_;
};

/// What one value adds to the account under which it was made.
class MemoryShare {
 public:
  explicit MemoryShare(std::size_t bytes = 0) : account_(MemoryAccount::Current()) { Grow(bytes); }
  MemoryShare(const MemoryShare& other) : MemoryShare(other.bytes_) {}
  MemoryShare& operator=(const MemoryShare& other) {
    Grow(other.bytes_ - bytes_);
    return *this;
  }
  ~MemoryShare() { Grow(-bytes_); }

  void Grow(std::size_t bytes) {
    if (account_ == nullptr) return;
    account_->bytes_ += bytes;
    bytes_ += bytes;
  }

 private:
  MemoryAccount* account_;
  std::size_t bytes_ = 0;
};

/// An immutable string. Any character is found in constant time.
class Text {
 public:
  explicit Text(MarkedText text);

  const std::string& text() const { return text_.text(); }
  const MarkedText& marked() const { return text_; }
  /// Number of characters.
  std::int64_t length() const { return length_; }
  /// Byte offset of character `index`, 0 to length().
  std::size_t OffsetOf(std::int64_t index) const;
  /// Characters before byte `offset`, which must be the start of one, or the end.
  std::int64_t IndexOf(std::size_t offset) const;

 private:
  /// Characters between entries of `offsets_`.
  static constexpr std::int64_t kStride = 256;

  MarkedText text_;
  std::int64_t length_;
  std::vector<std::uint32_t> offsets_;  // of every kStride-th character; none where all are bytes
  MemoryShare memory_;
};

}  // namespace kv8::jinja
