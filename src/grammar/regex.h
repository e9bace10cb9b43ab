// Regular expressions: the part of their usual syntax that describes a regular language.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "grammar/char_set.h"
#include "grammar/program.h"
#include "kv8/error.h"

namespace kv8 {

inline constexpr std::size_t kMaxRegexBytes = std::size_t{16} << 10;
inline constexpr std::uint32_t kMaxRepeat = 100'000;

/// A parsed expression.
struct Regex {
  enum class Kind {
    kEmpty,   // the empty text
    kChars,   // one character of `chars`
    kConcat,  // parts, one after the other
    kAny,     // one of the parts
    kRepeat,  // parts[0], min to max times; max may be kNoLimit
    kStart,   // ^: only where a whole alternative begins
    kEnd,     // $: only where it ends
  };
  Kind kind = Kind::kEmpty;
  CharSet chars;
  std::vector<Regex> parts;
  std::uint32_t min = 0;
  std::uint32_t max = 0;

  /// Whether it matches the empty text.
  bool nullable() const;
};

/// Syntax: characters, `.` (any but a line end), classes with ranges and negation, \d \w \s \D \W
/// \S \p{L} \p{M} \p{N} \t \n \r \f \v \0 \xHH \uHHHH \u{H..}, groups (named or not), `|`, and the
/// quantifiers * + ? {m} {m,} {m,n}, lazy ones too, as laziness does not change what matches. ^ and
/// $ are allowed where an alternative of the whole expression begins and ends. Classes are those of
/// ECMA 262 without the `i`, `s` and `v` flags; characters are Unicode characters. Errors, naming
/// the byte offset: kInvalidArgument for bad syntax; kUnsupported for back-references, lookaround,
/// \b and \p of other classes; kResourceExhausted above kMaxRegexBytes, kMaxRepeat or 100 nested
/// groups.
Result<Regex> ParseRegex(std::string_view pattern, std::string_view where);

/// What the expression says about a text as a whole.
enum class Anchoring {
  kWhole,   // the text matches; ^ and $ change nothing
  kSearch,  // some part of it matches, which ^ and $ tie to its ends
};

/// Makes the expression match texts of `min` to `max` characters only. False, and nothing changes,
/// unless it matches no others anyway or is one repeated class, whose counts say it.
bool LimitLength(Regex& regex, Anchoring anchoring, std::uint32_t min, std::uint32_t max);

/// Reads any text of `min` to `max` characters, then goes on at `next`.
Pc AddText(ProgramBuilder& builder, std::uint32_t min, std::uint32_t max, TextForm form, Pc next);

/// Reads what matches, then goes on at `next`.
Pc AddRegex(ProgramBuilder& builder, const Regex& regex, Anchoring anchoring, TextForm form,
            Pc next);

}  // namespace kv8
