#include "text/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace kv8 {
namespace {

constexpr bool StandsForItself(int byte) {
  return (0x21 <= byte && byte <= 0x7E) || (0xA1 <= byte && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> chars{};
  std::array<std::int16_t, 0x144> bytes{};  // by character; -1 outside of the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.chars[byte] = c;
    alphabet.bytes[c] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();
static_assert(kAlphabet.chars[' '] == 0x120 && kAlphabet.chars[0xAD] == 0x143);

}  // namespace

char32_t ByteLevelChar(std::uint8_t byte) {
  return kAlphabet.chars[byte];
}

std::string ByteLevelBytes(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Char c = ReadUtf8(token, at);
    if (c.code_point >= kAlphabet.bytes.size() || kAlphabet.bytes[c.code_point] < 0) {
      return std::string(token);
    }
    bytes.push_back(static_cast<char>(kAlphabet.bytes[c.code_point]));
    at += c.length;
  }
  return bytes;
}

}  // namespace kv8
