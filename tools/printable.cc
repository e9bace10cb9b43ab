#include "printable.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace kv8 {
namespace {

constexpr std::size_t kLongestCharacter = 4;  // bytes

bool IsControl(char32_t c) {
  const bool c0_del_c1 = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool breaks_lines = c == 0x2028 || c == 0x2029;
  const bool turns = c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
                     (c >= 0x2066 && c <= 0x2069);
  return c0_del_c1 || breaks_lines || turns;
}

}  // namespace

std::string Printable(std::string_view text, std::string_view kept) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view window = text.substr(at, kLongestCharacter);
    const bool is_character = FirstInvalidUtf8(window).value_or(1) > 0;
    const Utf8Char next = is_character ? ReadUtf8(window, 0) : Utf8Char{0, 1};
    const std::string_view bytes = window.substr(0, next.length);
    const bool keep = is_character && (!IsControl(next.code_point) ||
                                       (bytes.size() == 1 && kept.find(bytes[0]) != kept.npos));
    if (keep) out += bytes;
    for (const char byte : keep ? "" : bytes) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    at += next.length;
  }
  return out;
}

std::string PrintableJson(std::string_view json) {
  std::string out;
  for (std::size_t at = 0; at < json.size();) {
    const Utf8Char next = ReadUtf8(json, at);
    if (IsControl(next.code_point)) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(next.code_point));
    } else {
      out += json.substr(at, next.length);
    }
    at += next.length;
  }
  return out;
}

}  // namespace kv8
