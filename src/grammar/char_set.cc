#include "grammar/char_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/utf8.h"

namespace kv8 {
namespace {

constexpr char32_t kLastChar = 0x10FFFF;
constexpr CharRange kSurrogates{0xD800, 0xDFFF};
constexpr char32_t kOutside = 0x110000;

/// The end of the longest head of `range` whose encodings have the same length and differ only in
/// bytes that run over whole ranges.
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

/// Adds the sequences as a tree: of one byte there is one way, however many go on with it, and what
/// follows is shared.
class SequenceAdder {
 public:
  SequenceAdder(ProgramBuilder& builder, Pc next) : builder_(builder), next_(next) {}

  Pc Add(const std::vector<ByteSequence>& tails) {
    if (tails.front().empty()) return next_;
    if (const auto known = known_.find(tails); known != known_.end()) return known->second;
    std::map<std::vector<ByteSequence>, ByteSet> ways;  // by what follows
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::vector<ByteSequence> rest;
      for (const ByteSequence& tail : tails) {
        const bool fits = tail.front().first <= byte && byte <= tail.front().last;
        if (fits) rest.emplace_back(tail.begin() + 1, tail.end());
      }
      if (!rest.empty()) ways[std::move(rest)].set(byte);
    }
    std::optional<Pc> entry;
    for (const auto& [rest, bytes] : ways) {
      const Pc way = builder_.Bytes(bytes, Add(rest));
      entry = entry ? builder_.Either(way, *entry) : way;
    }
    known_.emplace(tails, *entry);
    return *entry;
  }

 private:
  ProgramBuilder& builder_;
  Pc next_;
  std::map<std::vector<ByteSequence>, Pc> known_;
};

Pc AddUtf8(ProgramBuilder& builder, const CharSet& chars, Pc next) {
  if (chars.empty() || builder.full()) return builder.Nothing();
  // By length, so that all tails of a way have one.
  std::map<std::size_t, std::vector<ByteSequence>> by_length;
  for (ByteSequence& sequence : Utf8Sequences(chars)) {
    by_length[sequence.size()].push_back(std::move(sequence));
  }
  SequenceAdder adder(builder, next);
  std::optional<Pc> entry;
  for (const auto& [length, sequences] : by_length) {
    const Pc way = adder.Add(sequences);
    entry = entry ? builder.Either(way, *entry) : way;
  }
  return *entry;
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
  if (ranges_.empty() || ranges_.back().last + 1 < first) {
    ranges_.push_back({first, last});
    return *this;
  }
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

std::vector<ByteSequence> Utf8Sequences(const CharSet& chars) {
  std::vector<ByteSequence> sequences;
  for (CharRange range : chars.ranges()) {
    while (range.first <= range.last) {
      const char32_t end = SequenceEnd(range);
      std::string first;
      std::string last;
      AppendUtf8(range.first, first);
      AppendUtf8(end, last);
      ByteSequence& sequence = sequences.emplace_back();
      for (std::size_t i = 0; i < first.size(); ++i) {
        sequence.push_back(
            {static_cast<std::uint8_t>(first[i]), static_cast<std::uint8_t>(last[i])});
      }
      range.first = end + 1;
    }
  }
  return sequences;
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
