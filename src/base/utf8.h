// UTF-8: reading valid text, finding the first invalid byte, and lossy decoding of byte streams.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kv8 {

/// One character of valid UTF-8.
struct Utf8Char {
  char32_t code_point;
  std::size_t length;  // bytes, 1 to 4
};

/// The character that starts at text[at]. `text` must be valid UTF-8 and `at` a character start.
inline Utf8Char ReadUtf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

/// Appends `code_point` (a Unicode scalar value) to `out`.
void AppendUtf8(char32_t code_point, std::string& out);

/// Offset of the first byte that is not part of a well-formed character; nullopt for valid text.
std::optional<std::size_t> FirstInvalidUtf8(std::string_view text);

/// Turns a stream of bytes into valid UTF-8. A character is emitted only when it is complete; every
/// maximal ill-formed part becomes one U+FFFD, as the Unicode standard recommends (section 3.9).
class LossyUtf8 {
 public:
  /// Appends to `out` what `bytes` completes. The bytes of an unfinished character are kept.
  void Push(std::string_view bytes, std::string& out);

  /// Ends the stream: an unfinished character becomes one U+FFFD.
  void Finish(std::string& out);

 private:
  void PushByte(char byte, std::string& out);

  std::array<char, 4> pending_{};
  std::size_t pending_size_ = 0;
};

}  // namespace kv8
