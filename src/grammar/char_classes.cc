#include "grammar/char_classes.h"

#include "text/unicode.h"

namespace kv8 {
namespace {

/// Characters with some of these bits of Unicode::ClassOf.
CharSet OfClass(std::uint8_t bits) {
  CharSet chars;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if ((Unicode::Get().ClassOf(c) & bits) == 0) continue;
    const char32_t first = c;
    while (c < 0x10FFFF && (Unicode::Get().ClassOf(c + 1) & bits) != 0) ++c;
    chars.Add(first, c);
  }
  return chars;
}

}  // namespace

const CharSet& Digits() {
  static const CharSet kChars = CharSet().Add('0', '9');
  return kChars;
}

const CharSet& WordChars() {
  static const CharSet kChars = CharSet().Add('0', '9').Add('A', 'Z').Add('a', 'z').Add('_', '_');
  return kChars;
}

const CharSet& LineEnds() {
  static const CharSet kChars = CharSet().Add('\n', '\n').Add('\r', '\r').Add(0x2028, 0x2029);
  return kChars;
}

const CharSet& Spaces() {
  static const CharSet kChars = CharSet()
                                    .Add('\t', '\r')
                                    .Add(' ', ' ')
                                    .Add(0xA0, 0xA0)
                                    .Add(0x1680, 0x1680)
                                    .Add(0x2000, 0x200A)
                                    .Add(0x2028, 0x2029)
                                    .Add(0x202F, 0x202F)
                                    .Add(0x205F, 0x205F)
                                    .Add(0x3000, 0x3000)
                                    .Add(0xFEFF, 0xFEFF);
  return kChars;
}

const CharSet* Category(std::string_view name) {
  static const CharSet kLetters = OfClass(kLetter);
  static const CharSet kMarks = OfClass(kMark);
  static const CharSet kNumbers = OfClass(kNumber);
  if (name == "L" || name == "Letter") return &kLetters;
  if (name == "M" || name == "Mark") return &kMarks;
  if (name == "N" || name == "Number") return &kNumbers;
  return nullptr;
}

}  // namespace kv8
