#include "jinja/text.h"

#include <algorithm>
#include <utility>

#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

thread_local MemoryAccount* current = nullptr;

}  // namespace

MemoryAccount::MemoryAccount() : outer_(std::exchange(current, this)) {}
MemoryAccount::~MemoryAccount() {
  current = outer_;
}
MemoryAccount* MemoryAccount::Current() {
  return current;
}

Text::Text(MarkedText text) : text_(std::move(text)), length_(CodePoints(text_.text())) {
  const std::string_view bytes = text_.text();
  if (length_ > kStride && static_cast<std::size_t>(length_) != bytes.size()) {
    offsets_.reserve(length_ / kStride + 1);
    for (std::size_t at = 0; at < bytes.size();) {
      offsets_.push_back(static_cast<std::uint32_t>(at));
      at += kv8::jinja::OffsetOf(bytes.substr(at), kStride);
    }
  }
  memory_.Grow(sizeof(Text) + text_.text().capacity() + offsets_.size() * sizeof(std::uint32_t));
}

std::size_t Text::OffsetOf(std::int64_t index) const {
  const std::string_view bytes = text_.text();
  if (static_cast<std::size_t>(length_) == bytes.size()) return static_cast<std::size_t>(index);
  if (index == length_) return bytes.size();
  const std::size_t start = offsets_.empty() ? 0 : offsets_[index / kStride];
  if (!offsets_.empty()) index %= kStride;
  return start + kv8::jinja::OffsetOf(bytes.substr(start), index);
}

std::int64_t Text::IndexOf(std::size_t offset) const {
  const std::string_view bytes = text_.text();
  if (static_cast<std::size_t>(length_) == bytes.size()) return static_cast<std::int64_t>(offset);
  if (offsets_.empty()) return CodePoints(bytes.substr(0, offset));
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
  const std::int64_t stride = after - offsets_.begin() - 1;
  const std::size_t start = offsets_[stride];
  return stride * kStride + CodePoints(bytes.substr(start, offset - start));
}

}  // namespace kv8::jinja
