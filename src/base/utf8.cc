#include "base/utf8.h"

#include <simdjson.h>
#include <cstdint>

namespace kv8 {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Length of the character that `lead` starts; 0 when no character starts with it.
std::size_t SequenceLength(char lead) {
  const auto byte = static_cast<std::uint8_t>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xC2) return 0;  // continuation bytes, and leads of overlong forms
  if (byte < 0xE0) return 2;
  if (byte < 0xF0) return 3;
  return byte < 0xF5 ? 4 : 0;
}

/// Whether `byte` may be byte number `index` (1 to 3) of the character that `lead` starts. The
/// second byte alone decides about overlong forms, surrogates and values above U+10FFFF.
bool Continues(char lead, std::size_t index, char byte) {
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (index == 1) {
    switch (static_cast<std::uint8_t>(lead)) {
      case 0xE0:
        low = 0xA0;
        break;
      case 0xED:
        high = 0x9F;
        break;
      case 0xF0:
        low = 0x90;
        break;
      case 0xF4:
        high = 0x8F;
        break;
      default:
        break;
    }
  }
  const auto value = static_cast<std::uint8_t>(byte);
  return low <= value && value <= high;
}

}  // namespace

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | code_point >> 12);
    } else {
      put(0xF0 | code_point >> 18);
      put(0x80 | (code_point >> 12 & 0x3F));
    }
    put(0x80 | (code_point >> 6 & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

std::optional<std::size_t> FirstInvalidUtf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::nullopt;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = SequenceLength(text[at]);
    if (length == 0 || length > text.size() - at) return at;
    for (std::size_t i = 1; i < length; ++i) {
      if (!Continues(text[at], i, text[at + i])) return at;
    }
    at += length;
  }
  return std::nullopt;
}

void LossyUtf8::Push(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) PushByte(byte, out);
}

void LossyUtf8::PushByte(char byte, std::string& out) {
  if (pending_size_ > 0 && !Continues(pending_[0], pending_size_, byte)) {
    out += kReplacement;
    pending_size_ = 0;
  }
  if (pending_size_ == 0 && SequenceLength(byte) == 0) {
    out += kReplacement;
    return;
  }
  pending_[pending_size_++] = byte;
  if (pending_size_ == SequenceLength(pending_[0])) {
    out.append(pending_.data(), pending_size_);
    pending_size_ = 0;
  }
}

void LossyUtf8::Finish(std::string& out) {
  if (pending_size_ > 0) out += kReplacement;
  pending_size_ = 0;
}

}  // namespace kv8
