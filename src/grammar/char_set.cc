#include "grammar/char_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/utf8.h"

namespace kv8 {
namespace {

constexpr char32_t kLastChar = 0x10FFFF;
constexpr CharRange kSurrogates{0xD800, 0xDFFF};
constexpr char32_t kOutside = 0x110000;

ByteSet Range(unsigned char first, unsigned char last) {
  ByteSet set;
  for (std::size_t byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

/// The two ends of a run of characters whose encodings have the same length and differ only in
/// bytes that run over whole ranges.
void AddSequence(ProgramBuilder& builder, CharRange range, Pc next, Pc& entry, bool& is_first) {
  std::string first;
  std::string last;
  AppendUtf8(range.first, first);
  AppendUtf8(range.last, last);
  Pc pc = next;
  for (std::size_t i = first.size(); i > 0; --i) {
    pc = builder.Bytes(
        Range(static_cast<unsigned char>(first[i - 1]), static_cast<unsigned char>(last[i - 1])),
        pc);
  }
  entry = is_first ? pc : builder.Either(pc, entry);
  is_first = false;
}

/// The longest head of `range` that AddSequence can take.
char32_t SequenceEnd(CharRange range) {
  for (const char32_t limit : {U'\x7F', U'\u07FF', U'\uFFFF'}) {
    if (range.first <= limit) {
      range.last = std::min<char32_t>(range.last, limit);
      break;
    }
  }
  if (range.last < 0x80) return range.last;
  // From the last byte on: either all characters share what stands before these bits, or the bits
  // must start at 0, and then they end at all ones.
  for (const int bits : {6, 12, 18}) {
    const char32_t mask = (char32_t{1} << bits) - 1;
    if (range.first >> bits == range.last >> bits) continue;
    if ((range.first & mask) != 0) return range.first | mask;
    if ((range.last & mask) != mask) range.last = ((range.last >> bits) << bits) - 1;
  }
  return range.last;
}

Pc AddUtf8(ProgramBuilder& builder, const CharSet& chars, Pc next) {
  Pc entry = kReturnPc;
  bool is_first = true;
  for (CharRange range : chars.ranges()) {
    while (range.first <= range.last && !builder.full()) {
      const char32_t end = SequenceEnd(range);
      AddSequence(builder, {range.first, end}, next, entry, is_first);
      range.first = end + 1;
    }
  }
  return is_first ? builder.Nothing() : entry;
}

}  // namespace

CharSet& CharSet::Add(char32_t first, char32_t last) {
  if (first < kSurrogates.first && last > kSurrogates.last) {
    Add(first, kSurrogates.first - 1);
    return Add(kSurrogates.last + 1, last);
  }
  if (first >= kSurrogates.first && first <= kSurrogates.last) first = kSurrogates.last + 1;
  if (last >= kSurrogates.first && last <= kSurrogates.last) last = kSurrogates.first - 1;
  if (first > last) return *this;
  std::vector<CharRange> merged;
  CharRange added{first, last};
  for (const CharRange& range : ranges_) {
    if (range.last + 1 < added.first || added.last + 1 < range.first) {
      merged.push_back(range);
    } else {
      added = {std::min(added.first, range.first), std::max(added.last, range.last)};
    }
  }
  merged.push_back(added);
  std::sort(merged.begin(), merged.end(),
            [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  ranges_ = std::move(merged);
  return *this;
}

CharSet& CharSet::Add(const CharSet& other) {
  for (const CharRange& range : other.ranges_) Add(range.first, range.last);
  return *this;
}

CharSet CharSet::Complement() const {
  CharSet result;
  char32_t first = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > first) result.Add(first, range.first - 1);
    first = range.last + 1;
  }
  if (first < kOutside) result.Add(first, kLastChar);
  return result;
}

CharSet CharSet::Without(const CharSet& other) const {
  return Within(other.Complement());
}

CharSet CharSet::Within(const CharSet& other) const {
  CharSet result;
  for (const CharRange& a : ranges_) {
    for (const CharRange& b : other.ranges_) {
      const char32_t first = std::max(a.first, b.first);
      const char32_t last = std::min(a.last, b.last);
      if (first <= last) result.Add(first, last);
    }
  }
  return result;
}

bool CharSet::Has(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [c](const CharRange& r) { return r.first <= c && c <= r.last; });
}

std::u32string CharactersOf(std::string_view text) {
  std::u32string characters;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    characters.push_back(c.code_point);
    at += c.length;
  }
  return characters;
}

const CharSet& JsonEscaped() {
  static const CharSet kEscaped = CharSet().Add(0, 0x1F).Add('"', '"').Add('\\', '\\');
  return kEscaped;
}

std::string Written(char32_t c, TextForm form) {
  std::string text;
  if (form == TextForm::kPlain || !JsonEscaped().Has(c)) {
    AppendUtf8(c, text);
    return text;
  }
  constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
  constexpr std::string_view kNames = "\"\\bfnrt";
  const std::size_t name = kNamed.find(static_cast<char>(c));
  if (name != kNamed.npos) return {'\\', kNames[name]};
  return fmt::format("\\u{:04x}", static_cast<unsigned>(c));
}

Pc AddChars(ProgramBuilder& builder, const CharSet& chars, TextForm form, Pc next) {
  if (form == TextForm::kPlain) return AddUtf8(builder, chars, next);
  const CharSet plain = chars.Without(JsonEscaped());
  Pc entry = plain.empty() ? builder.Nothing() : AddUtf8(builder, plain, next);
  const CharSet escaped = chars.Within(JsonEscaped());
  for (const CharRange& range : escaped.ranges()) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      entry = builder.Either(builder.Literal(Written(c, form), next), entry);
    }
  }
  return entry;
}

}  // namespace kv8
