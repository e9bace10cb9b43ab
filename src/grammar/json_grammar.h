// JSON text as the pieces that grammars are put together from.
//
// White space is bounded, so that no text can go on with it for ever: at most one space after a
// colon; after `{`, `[` and `,` and before `}` and `]` nothing, one space, or a line end and up to
// kMaxIndent spaces; none elsewhere. Numbers are bounded too: at most 100 digits before and after
// the point, exponents from -999 to 99.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/program.h"

namespace kv8 {

inline constexpr std::uint32_t kMaxIndent = 32;
/// Strings inside one another whose text is JSON: each doubles the backslashes before a quote.
inline constexpr int kMaxQuoting = 4;

struct KeyName {
  std::u32string name;
  Pc next = kReturnPc;
};

class JsonGrammar {
 public:
  explicit JsonGrammar(ProgramBuilder& builder) : builder_(builder) {}

  // Each reads what it is called, then goes on at `next`.

  Pc Value(Pc next) { return builder_.Call(ValueRule(), next); }
  Pc Object(Pc next);
  Pc Array(Pc next);
  /// Of `min` to `max` characters; an escape is one, a pair of surrogates too.
  Pc String(Pc next, std::uint32_t min = 0, std::uint32_t max = kNoLimit);
  Pc Integer(Pc next);
  Pc Number(Pc next);
  Pc Boolean(Pc next);
  Pc Null(Pc next) { return builder_.Literal("null", next); }

  /// One of the texts, which are sorted and different.
  Pc OneOf(std::span<const std::string> texts, Pc next) { return OneOf(texts, 0, next); }
  /// A string in its shortest form. After one of the names, which are sorted and different, it goes
  /// on at that name's `next`, after any other string at `next`.
  Pc Key(std::span<const KeyName> names, Pc next);
  /// What a regular expression of the plain text matches; it must be one that ParseRegex takes.
  Pc Pattern(std::string_view pattern, Pc next);

  Pc Space(Pc next);
  /// The colon after a key.
  Pc Colon(Pc next) {
    return builder_.Literal(":", builder_.Either(builder_.Literal(" ", next), next));
  }
  /// `item` again and again, separated by commas and after one of them, then on at `next`. The
  /// function gives the entry of one item that goes on at its argument.
  template <class Item>
  Pc CommaRepeat(const Item& item, Pc next) {
    const Pc split = builder_.OpenSplit(next);
    builder_.Close(split, Comma(item(split)));
    return split;
  }
  Pc Comma(Pc next) { return builder_.Literal(",", Space(next)); }

 private:
  RuleId ValueRule();
  Pc OneOf(std::span<const std::string> texts, std::size_t from, Pc next);
  Pc Key(std::span<const KeyName> names, std::size_t from, Pc tail, Pc next);

  struct Rules {
    std::optional<RuleId> value;
    std::optional<RuleId> string;
    std::optional<RuleId> space;
    std::optional<RuleId> escape;
  };
  Rules& rules() { return rules_[static_cast<std::size_t>(builder_.quoting())]; }

  ProgramBuilder& builder_;
  std::array<Rules, kMaxQuoting + 1> rules_;  // by the builder's quoting
};

}  // namespace kv8
