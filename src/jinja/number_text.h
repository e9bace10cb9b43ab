// Numbers as Python writes and reads them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "jinja/value.h"

namespace kv8::jinja {

struct NumberToken {
  Value value;
  std::size_t length;  // bytes
};

/// The number literal that `text` begins with, which is a digit: 12, 1_000, 0x1f, 1.5, 2e3. A
/// float only if `may_be_float`. Nullopt for an integer beyond 64 bits.
std::optional<NumberToken> ReadNumber(std::string_view text, bool may_be_float);

/// int(text, base), for a base from 2 to 36, or 0: as the prefix says. Nullopt for anything else
/// than an integer of 64 bits, white space around it allowed.
std::optional<Value> ParseInt(std::string_view text, int base = 10);

/// float(text). Nullopt for what is no number.
std::optional<double> ParseFloat(std::string_view text);

}  // namespace kv8::jinja
