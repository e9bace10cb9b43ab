// The byte-level alphabet: how vocabularies spell arbitrary bytes as printable characters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kv8 {

/// The character that stands for `byte`: itself when it is printable Latin-1, else one of U+0100
/// to U+0143, given out in byte order.
char32_t ByteLevelChar(std::uint8_t byte);

/// Bytes that `token`, valid UTF-8 in the alphabet, stands for. A token with any character outside
/// of the alphabet stands for its own UTF-8, as the `tokenizers` library has it.
std::string ByteLevelBytes(std::string_view token);

}  // namespace kv8
