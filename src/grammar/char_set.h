// Sets of Unicode characters, and the byte sequences that stand for them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/program.h"

namespace kv8 {

struct CharRange {
  char32_t first = 0;
  char32_t last = 0;  // included

  bool operator==(const CharRange&) const = default;
};

/// A set of Unicode scalar values, which surrogates are not.
class CharSet {
 public:
  CharSet() = default;
  static CharSet Of(char32_t c) { return CharSet().Add(c, c); }
  static CharSet All() { return CharSet().Complement(); }

  CharSet& Add(char32_t first, char32_t last);
  CharSet& Add(const CharSet& other);
  CharSet Complement() const;
  CharSet Without(const CharSet& other) const;
  CharSet Within(const CharSet& other) const;

  bool empty() const { return ranges_.empty(); }
  bool Has(char32_t c) const;
  /// Ascending, disjoint and not adjacent.
  const std::vector<CharRange>& ranges() const { return ranges_; }

 private:
  std::vector<CharRange> ranges_;
};

struct ByteRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;  // included

  auto operator<=>(const ByteRange&) const = default;
};
/// Encodings of the same length: one range for each of their bytes.
using ByteSequence = std::vector<ByteRange>;

/// The UTF-8 of a set's characters: each of them is in one sequence.
std::vector<ByteSequence> Utf8Sequences(const CharSet& chars);

/// How characters are written in the text that is constrained.
enum class TextForm {
  kPlain,       // as UTF-8
  kJsonString,  // in a JSON string: UTF-8, and the shortest escape where JSON demands one
};

/// Reads one character of `chars`, then goes on at `next`.
Pc AddChars(ProgramBuilder& builder, const CharSet& chars, TextForm form, Pc next);

/// `c` in that form.
std::string Written(char32_t c, TextForm form);

/// The characters of a text, which is valid UTF-8.
std::u32string CharactersOf(std::string_view text);

/// Characters that JSON strings must escape: `"`, `\` and controls.
const CharSet& JsonEscaped();

}  // namespace kv8
