// The classes of characters that regular expressions name.
#pragma once

#include <string_view>

#include "grammar/char_set.h"

namespace kv8 {

// Of ECMA 262, without flags.
const CharSet& Digits();     // \d
const CharSet& WordChars();  // \w
const CharSet& LineEnds();   // what `.` leaves out
const CharSet& Spaces();     // \s: WhiteSpace and LineTerminator

/// Unicode's general categories that are known: L, M and N, by their short and long names; null for
/// others.
const CharSet* Category(std::string_view name);

}  // namespace kv8
