#include "text/pretokenizer.h"

#include <array>

#include "base/utf8.h"

namespace kv8 {
namespace {

constexpr auto kSplitRules = std::to_array<SplitRule>({
    // Qwen3.5 and later: combining marks belong to words.
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kLetter | kMark},
    // Qwen2 and Qwen3.
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kLetter},
});

char AsciiLower(char c) {
  return 'A' <= c && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

bool IsNewline(char c) {
  return c == '\r' || c == '\n';
}

}  // namespace

const SplitRule* FindSplitRule(std::string_view regex) {
  for (const SplitRule& rule : kSplitRules) {
    if (rule.regex == regex) return &rule;
  }
  return nullptr;
}

std::string_view PieceScanner::Next() {
  const std::size_t start = at_;
  if (start < text_.size()) at_ = PieceEnd(start);
  return text_.substr(start, at_ - start);
}

/// The character at `at`; no class and length 0 at the end of the text.
PieceScanner::Char PieceScanner::At(std::size_t at) const {
  if (at == text_.size()) return {0, 0};
  const Utf8Char c = ReadUtf8(text_, at);
  return {unicode_.ClassOf(c.code_point), c.length};
}

/// The alternatives of the expression, in its order where more than one could match.
std::size_t PieceScanner::PieceEnd(std::size_t start) const {
  const Char first = At(start);
  if (text_[start] == '\'') {
    const std::size_t end = ContractionEnd(start);
    if (end != start) return end;
  }
  const std::size_t second_at = start + first.length;
  if (IsWord(first)) return WordEnd(second_at);
  if (first.classes & kNumber) return second_at;
  const Char second = At(second_at);
  if (IsWord(second) && !(first.classes & kNewline)) return WordEnd(second_at);
  if (IsSymbol(first) || (text_[start] == ' ' && IsSymbol(second))) return SymbolsEnd(second_at);
  return SpaceEnd(start);
}

/// End of 's, 't, 're, 've, 'm, 'll or 'd in any case; `start` when there is none. The expression
/// ignores case by Unicode's rules, under which U+017F (long s) equals s.
std::size_t PieceScanner::ContractionEnd(std::size_t start) const {
  const std::string_view rest = text_.substr(start + 1);
  if (rest.starts_with("\xC5\xBF")) return start + 3;  // U+017F
  if (rest.empty()) return start;
  const char first = AsciiLower(rest[0]);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return start + 2;
  const char second = rest.size() > 1 ? AsciiLower(rest[1]) : '\0';
  const bool two =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return two ? start + 3 : start;
}

std::size_t PieceScanner::WordEnd(std::size_t at) const {
  for (Char c = At(at); IsWord(c); c = At(at)) at += c.length;
  return at;
}

std::size_t PieceScanner::SymbolsEnd(std::size_t at) const {
  for (Char c = At(at); IsSymbol(c); c = At(at)) at += c.length;
  while (at < text_.size() && IsNewline(text_[at])) ++at;
  return at;
}

/// A run of white space: up to its last line break if it has one, else without its last character
/// when something follows that this character can go with.
std::size_t PieceScanner::SpaceEnd(std::size_t start) const {
  std::size_t end = start;
  std::size_t last = start;         // start of the run's last character
  std::size_t after_break = start;  // end of the run's last line break
  for (Char c = At(end); c.classes & kSpace; c = At(end)) {
    last = end;
    end += c.length;
    if (c.classes & kNewline) after_break = end;
  }
  if (after_break > start) return after_break;
  if (end == text_.size() || last == start) return end;
  return last;
}

}  // namespace kv8
