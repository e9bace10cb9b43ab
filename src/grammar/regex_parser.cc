#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "grammar/char_classes.h"
#include "grammar/regex.h"

namespace kv8 {
namespace {

constexpr int kMaxGroups = 100;  // inside one another

bool IsAsciiLetterOrDigit(char c) {
  return ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z');
}

Regex OfChars(CharSet chars) {
  Regex regex;
  regex.kind = Regex::Kind::kChars;
  regex.chars = std::move(chars);
  return regex;
}

class Parser {
 public:
  Parser(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  Result<Regex> Parse() {
    KV8_ASSIGN_OR_RETURN(Regex regex, Alternatives());
    if (!AtEnd()) return Bad("')' closes no group");
    return regex;
  }

 private:
  Error Fail(Code code, std::string_view what, std::string_view remedy) const {
    return Error{code, fmt::format("regular expression: {} at byte {}", what, at_),
                 std::string(where_), std::string(remedy)};
  }
  Error Bad(std::string_view what) const {
    return Fail(Code::kInvalidArgument, what, "mend the expression");
  }
  Error Unsupported(std::string_view what) const {
    return Fail(Code::kUnsupported, what, "write it without");
  }

  bool AtEnd() const { return at_ == pattern_.size(); }
  char Peek() const { return pattern_[at_]; }
  bool Take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t TakeChar() {
    const Utf8Char c = ReadUtf8(pattern_, at_);
    at_ += c.length;
    return c.code_point;
  }

  Result<Regex> Alternatives();
  Result<Regex> Sequence();
  Result<Regex> Atom();
  Result<Regex> Group();
  Result<Regex> Anchor(bool at_start);
  Result<Regex> Quantified(Regex atom);
  Result<std::optional<std::pair<std::uint32_t, std::uint32_t>>> Quantifier();
  Result<std::optional<std::pair<std::uint32_t, std::uint32_t>>> Counts();
  std::optional<std::uint32_t> Number();
  Result<CharSet> Class();
  Result<CharSet> ClassAtom();
  Result<CharSet> Escape(bool in_class);
  Result<CharSet> EscapedLetter(char letter, bool in_class);
  Result<CharSet> InCategory(bool negated);
  Result<char32_t> CodePoint(char letter);
  Result<char32_t> Hex(std::size_t digits);

  std::string_view pattern_;
  std::string_view where_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

Result<Regex> Parser::Alternatives() {
  Regex any;
  any.kind = Regex::Kind::kAny;
  do {
    KV8_ASSIGN_OR_RETURN(Regex sequence, Sequence());
    any.parts.push_back(std::move(sequence));
  } while (Take("|"));
  if (any.parts.size() > 1) return any;
  Regex only = std::move(any.parts.front());
  return only;
}

Result<Regex> Parser::Sequence() {
  Regex sequence;
  sequence.kind = Regex::Kind::kConcat;
  while (!AtEnd() && Peek() != '|' && Peek() != ')') {
    if (Peek() == '^' || Peek() == '$') {
      KV8_ASSIGN_OR_RETURN(Regex anchor, Anchor(sequence.parts.empty()));
      sequence.parts.push_back(std::move(anchor));
      continue;
    }
    KV8_ASSIGN_OR_RETURN(Regex atom, Atom());
    KV8_ASSIGN_OR_RETURN(Regex part, Quantified(std::move(atom)));
    sequence.parts.push_back(std::move(part));
  }
  return sequence;
}

Result<Regex> Parser::Anchor(bool at_start) {
  Regex anchor;
  if (Peek() == '^') {
    if (depth_ > 0 || !at_start) return Unsupported("^ inside of an alternative");
    anchor.kind = Regex::Kind::kStart;
  } else {
    const bool at_end = at_ + 1 == pattern_.size() || pattern_[at_ + 1] == '|';
    if (depth_ > 0 || !at_end) return Unsupported("$ inside of an alternative");
    anchor.kind = Regex::Kind::kEnd;
  }
  ++at_;
  return anchor;
}

Result<Regex> Parser::Atom() {
  switch (Peek()) {
    case '(':
      return Group();
    case '[': {
      KV8_ASSIGN_OR_RETURN(CharSet chars, Class());
      return OfChars(std::move(chars));
    }
    case '\\': {
      KV8_ASSIGN_OR_RETURN(CharSet chars, Escape(/*in_class=*/false));
      return OfChars(std::move(chars));
    }
    case '.':
      ++at_;
      return OfChars(LineEnds().Complement());
    case '*':
    case '+':
    case '?':
      return Bad(fmt::format("nothing before {}", Peek()));
    default:
      return OfChars(CharSet::Of(TakeChar()));
  }
}

Result<Regex> Parser::Group() {
  if (depth_ == kMaxGroups) {
    return Fail(Code::kResourceExhausted, fmt::format("more than {} nested groups", kMaxGroups),
                "nest less");
  }
  ++at_;
  if (Take("?P<") || (!pattern_.substr(at_).starts_with("?<=") &&
                      !pattern_.substr(at_).starts_with("?<!") && Take("?<"))) {
    const std::size_t end = pattern_.find('>', at_);
    if (end == pattern_.npos) return Bad("a group's name without >");
    at_ = end + 1;
  } else if (!Take("?:") && !AtEnd() && Peek() == '?') {
    return Unsupported("lookaround or a flag");
  }
  ++depth_;
  KV8_ASSIGN_OR_RETURN(Regex inner, Alternatives());
  --depth_;
  if (!Take(")")) return Bad("a group is not closed");
  return inner;
}

Result<Regex> Parser::Quantified(Regex atom) {
  KV8_ASSIGN_OR_RETURN(const auto counts, Quantifier());
  if (!counts) return atom;
  const auto [min, max] = *counts;
  if (min > max) return Bad(fmt::format("{{{},{}}} is upside down", min, max));
  if (!Take("?") && !AtEnd() && Peek() == '+') return Unsupported("a possessive quantifier");
  if (!AtEnd() && (Peek() == '*' || Peek() == '?')) return Bad("a quantifier of a quantifier");
  Regex repeat;
  repeat.kind = Regex::Kind::kRepeat;
  repeat.min = min;
  repeat.max = max;
  repeat.parts.push_back(std::move(atom));
  return repeat;
}

Result<std::optional<std::pair<std::uint32_t, std::uint32_t>>> Parser::Quantifier() {
  using Counts = std::pair<std::uint32_t, std::uint32_t>;
  if (Take("*")) return std::optional(Counts{0, kNoLimit});
  if (Take("+")) return std::optional(Counts{1, kNoLimit});
  if (Take("?")) return std::optional(Counts{0, 1});
  if (!AtEnd() && Peek() == '{') return this->Counts();
  return std::optional<Counts>();
}

/// {m}, {m,} or {m,n}. Anything else that starts with a brace is the brace itself, as elsewhere.
Result<std::optional<std::pair<std::uint32_t, std::uint32_t>>> Parser::Counts() {
  const std::size_t start = at_++;
  const auto min = Number();
  auto max = min;
  if (min && Take(",")) {
    max = Number();
    if (!max) max = kNoLimit;
  }
  if (!min || !Take("}")) {
    at_ = start;
    return std::optional<std::pair<std::uint32_t, std::uint32_t>>();
  }
  if (*min > kMaxRepeat || (*max > kMaxRepeat && *max != kNoLimit)) {
    return Fail(Code::kResourceExhausted, fmt::format("more than {} repetitions", kMaxRepeat),
                "repeat less often, or without a limit");
  }
  return std::optional(std::pair{*min, *max});
}

std::optional<std::uint32_t> Parser::Number() {
  const std::size_t start = at_;
  std::uint32_t value = 0;
  for (; !AtEnd() && '0' <= Peek() && Peek() <= '9'; ++at_) {
    value = std::min(value * 10 + static_cast<std::uint32_t>(Peek() - '0'), kMaxRepeat + 1);
  }
  if (at_ == start) return std::nullopt;
  return value;
}

Result<CharSet> Parser::Class() {
  ++at_;
  const bool negated = Take("^");
  CharSet chars;
  if (!AtEnd() && Peek() == ']') return Bad("an empty class, or ] without a backslash");
  while (!AtEnd() && Peek() != ']') {
    KV8_ASSIGN_OR_RETURN(const CharSet first, ClassAtom());
    const bool range = at_ + 1 < pattern_.size() && Peek() == '-' && pattern_[at_ + 1] != ']';
    if (!range) {
      chars.Add(first);
      continue;
    }
    ++at_;
    KV8_ASSIGN_OR_RETURN(const CharSet last, ClassAtom());
    const auto is_one = [](const CharSet& c) {
      return c.ranges().size() == 1 && c.ranges()[0].first == c.ranges()[0].last;
    };
    if (!is_one(first) || !is_one(last)) return Bad("a range between what are not characters");
    if (first.ranges()[0].first > last.ranges()[0].first) return Bad("a range is upside down");
    chars.Add(first.ranges()[0].first, last.ranges()[0].first);
  }
  if (!Take("]")) return Bad("a class is not closed");
  return negated ? chars.Complement() : chars;
}

Result<CharSet> Parser::ClassAtom() {
  if (AtEnd()) return Bad("a class is not closed");
  if (Peek() == '\\') return Escape(/*in_class=*/true);
  return CharSet::Of(TakeChar());
}

Result<CharSet> Parser::Escape(bool in_class) {
  ++at_;
  if (AtEnd()) return Bad("nothing after the backslash");
  const char c = Peek();
  if (IsAsciiLetterOrDigit(c)) {
    ++at_;
    return EscapedLetter(c, in_class);
  }
  return CharSet::Of(TakeChar());
}

Result<CharSet> Parser::EscapedLetter(char letter, bool in_class) {
  switch (letter) {
    case 'd':
      return Digits();
    case 'D':
      return Digits().Complement();
    case 'w':
      return WordChars();
    case 'W':
      return WordChars().Complement();
    case 's':
      return Spaces();
    case 'S':
      return Spaces().Complement();
    case 'p':
    case 'P':
      return InCategory(/*negated=*/letter == 'P');
    case 'b':
      if (in_class) return CharSet::Of('\b');
      return Unsupported("\\b");
    default: {
      KV8_ASSIGN_OR_RETURN(const char32_t c, CodePoint(letter));
      return CharSet::Of(c);
    }
  }
}

/// {L}, {M} or {N} after \p.
Result<CharSet> Parser::InCategory(bool negated) {
  const std::size_t end = pattern_.find('}', at_);
  if (!Take("{") || end == pattern_.npos) return Bad("\\p without {...}");
  const std::string_view name = pattern_.substr(at_, end - at_);
  const CharSet* chars = Category(name);
  if (chars == nullptr) {
    return Unsupported(fmt::format("the class \\p{{{}}}, of which L, M and N are known", name));
  }
  at_ = end + 1;
  return negated ? chars->Complement() : *chars;
}

Result<char32_t> Parser::CodePoint(char letter) {
  constexpr std::string_view kLetters = "tnvfr0";
  constexpr std::string_view kChars("\t\n\v\f\r\0", 6);
  if (const std::size_t i = kLetters.find(letter); i != kLetters.npos) {
    return static_cast<char32_t>(kChars[i]);
  }
  if (letter == 'x') return Hex(2);
  if (letter != 'u') {
    return Unsupported(fmt::format("the escape \\{}", letter));
  }
  char32_t c = 0;
  if (Take("{")) {
    const std::size_t end = std::min(pattern_.find('}', at_), pattern_.size());
    if (end - at_ == 0 || end - at_ > 6) return Bad("\\u{...} is not 1 to 6 hex digits");
    KV8_ASSIGN_OR_RETURN(c, Hex(end - at_));
    if (!Take("}")) return Bad("\\u{...} is not closed");
  } else {
    KV8_ASSIGN_OR_RETURN(c, Hex(4));
    if (0xD800 <= c && c <= 0xDBFF && Take("\\u")) {
      KV8_ASSIGN_OR_RETURN(const char32_t low, Hex(4));
      if (low < 0xDC00 || low > 0xDFFF) return Bad("half a surrogate pair");
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  if (c > 0x10FFFF || (0xD800 <= c && c <= 0xDFFF)) return Bad("not a Unicode character");
  return c;
}

Result<char32_t> Parser::Hex(std::size_t digits) {
  const std::string_view text = pattern_.substr(at_, digits);
  std::uint32_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() < digits || problem != std::errc() || end != text.data() + text.size()) {
    return Bad(fmt::format("not {} hex digits", digits));
  }
  at_ += digits;
  return static_cast<char32_t>(value);
}

}  // namespace

Result<Regex> ParseRegex(std::string_view pattern, std::string_view where) {
  if (pattern.size() > kMaxRegexBytes) {
    return Error{Code::kResourceExhausted,
                 fmt::format("a regular expression of {} bytes; at most {} are read",
                             pattern.size(), kMaxRegexBytes),
                 std::string(where), "shorten it"};
  }
  if (const auto invalid = FirstInvalidUtf8(pattern)) {
    return Error{Code::kInvalidArgument, fmt::format("not UTF-8 at byte {}", *invalid),
                 std::string(where), "convert the expression to UTF-8"};
  }
  return Parser(pattern, where).Parse();
}

}  // namespace kv8
