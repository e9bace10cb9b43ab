#include "jinja/python_text.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace kv8::jinja {
namespace {

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Start of the character that ends before `end`.
std::size_t StartBefore(std::string_view text, std::size_t end) {
  do {
    --end;
  } while (end > 0 && IsContinuation(text[end]));
  return end;
}

template <class Predicate>
std::string_view StripIf(std::string_view text, Side side, Predicate&& goes) {
  if (side != Side::kRight) {
    while (!text.empty()) {
      const Utf8Char first = ReadUtf8(text, 0);
      if (!goes(first.code_point)) break;
      text.remove_prefix(first.length);
    }
  }
  if (side != Side::kLeft) {
    while (!text.empty()) {
      const std::size_t start = StartBefore(text, text.size());
      if (!goes(ReadUtf8(text, start).code_point)) break;
      text.remove_suffix(text.size() - start);
    }
  }
  return text;
}

icu::UnicodeString FromUtf8(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

bool Has(char32_t code_point, Property property) {
  const auto c = static_cast<UChar32>(code_point);
  switch (property) {
    case Property::kAlpha:
      return u_isalpha(c);
    case Property::kDecimal:
      return u_charType(c) == U_DECIMAL_DIGIT_NUMBER;
    case Property::kDigit: {
      const auto type = u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE);
      return type == U_NT_DECIMAL || type == U_NT_DIGIT;
    }
    case Property::kNumeric:
      return u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
    case Property::kAlnum:
      return Has(code_point, Property::kAlpha) || Has(code_point, Property::kNumeric);
    case Property::kSpace:
      return IsSpace(code_point);
  }
  return false;
}

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsCased(char32_t code_point) {
  return u_hasBinaryProperty(static_cast<UChar32>(code_point), UCHAR_CASED);
}

/// isupper() or islower().
bool AllCased(std::string_view text, UProperty wanted) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    at += c.length;
    if (!IsCased(c.code_point)) continue;
    if (!u_hasBinaryProperty(static_cast<UChar32>(c.code_point), wanted)) return false;
    any = true;
  }
  return any;
}

/// Next piece of white-space separated text from the left, taken off `rest`.
std::string_view TakeWord(std::string_view& rest) {
  std::size_t end = 0;
  while (end < rest.size()) {
    const Utf8Char c = ReadUtf8(rest, end);
    if (IsSpace(c.code_point)) break;
    end += c.length;
  }
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

std::string_view TakeLastWord(std::string_view& rest) {
  std::size_t start = rest.size();
  while (start > 0) {
    const std::size_t before = StartBefore(rest, start);
    if (IsSpace(ReadUtf8(rest, before).code_point)) break;
    start = before;
  }
  const std::string_view word = rest.substr(start);
  rest.remove_suffix(rest.size() - start);
  return word;
}

}  // namespace

std::int64_t CodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); });
}

std::size_t OffsetOf(std::string_view text, std::int64_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += ReadUtf8(text, at).length;
  return at;
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = ReadUtf8(text, at).length;
    out.push_back(text.substr(at, length));
    at += length;
  }
  return out;
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsWordCharacter(char32_t code_point) {
  return code_point == '_' || Has(code_point, Property::kAlnum);
}

std::string_view Strip(std::string_view text, Side side,
                       std::optional<std::string_view> characters) {
  if (!characters) return StripIf(text, side, IsSpace);
  std::vector<char32_t> set;
  for (std::size_t at = 0; at < characters->size();) {
    const Utf8Char c = ReadUtf8(*characters, at);
    set.push_back(c.code_point);
    at += c.length;
  }
  std::sort(set.begin(), set.end());
  return StripIf(text, side,
                 [&set](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

std::string Upper(std::string_view text) {
  std::string out(text);
  if (IsAscii(text)) {
    for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return out;
  }
  out.clear();
  return FromUtf8(text).toUpper(icu::Locale::getRoot()).toUTF8String(out);
}

std::string Lower(std::string_view text) {
  std::string out(text);
  if (IsAscii(text)) {
    for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return out;
  }
  out.clear();
  return FromUtf8(text).toLower(icu::Locale::getRoot()).toUTF8String(out);
}

std::string Title(std::string_view text) {
  std::string out;
  bool inside = false;  // the character before is cased
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    const auto code_point = static_cast<UChar32>(c.code_point);
    AppendUtf8(static_cast<char32_t>(inside ? u_tolower(code_point) : u_totitle(code_point)), out);
    inside = IsCased(c.code_point);
    at += c.length;
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return "";
  const std::size_t first = ReadUtf8(text, 0).length;
  return Title(text.substr(0, first)) + Lower(text.substr(first));
}

bool AllHave(std::string_view text, Property property) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    if (!Has(c.code_point, property)) return false;
    at += c.length;
  }
  return !text.empty();
}

bool IsUpper(std::string_view text) {
  return AllCased(text, UCHAR_UPPERCASE);
}
bool IsLower(std::string_view text) {
  return AllCased(text, UCHAR_LOWERCASE);
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    const std::size_t end = at;
    at += c.length;
    if (!IsLineBreak(c.code_point)) continue;
    if (c.code_point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::vector<std::string_view> SplitSpace(std::string_view text, std::int64_t most,
                                         bool from_right) {
  std::vector<std::string_view> out;
  std::string_view rest = Strip(text, from_right ? Side::kRight : Side::kLeft);
  while (!rest.empty()) {
    if (most >= 0 && static_cast<std::int64_t>(out.size()) == most) {
      out.push_back(rest);  // with the white space inside of it and on its far side
      break;
    }
    out.push_back(from_right ? TakeLastWord(rest) : TakeWord(rest));
    rest = Strip(rest, from_right ? Side::kRight : Side::kLeft);
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      std::int64_t most, bool from_right) {
  std::vector<std::string_view> out;
  while (most < 0 || static_cast<std::int64_t>(out.size()) < most) {
    const std::size_t at = from_right ? FindLast(text, separator) : Find(text, separator);
    if (at == text.npos) break;
    if (from_right) {
      out.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      out.push_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
  }
  out.push_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

std::size_t Find(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return text.npos;
  // memmem is linear, which std::string_view::find is not.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return text.npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

std::size_t FindLast(std::string_view text, std::string_view part) {
  constexpr std::size_t kShort = 32;
  if (part.size() <= kShort) return text.rfind(part);
  const std::string reversed(text.rbegin(), text.rend());
  const std::size_t found = Find(reversed, std::string(part.rbegin(), part.rend()));
  return found == text.npos ? found : text.size() - found - part.size();
}

std::int64_t Count(std::string_view text, std::string_view part) {
  if (part.empty()) return CodePoints(text) + 1;
  std::int64_t count = 0;
  for (std::size_t at = Find(text, part); at != text.npos;
       at = Find(text, part, at + part.size())) {
    ++count;
  }
  return count;
}

MarkedText Replace(const MarkedText& whole, std::string_view from, const MarkedText& to,
                   std::int64_t most) {
  const std::string_view text = whole.text();
  MarkedText out;
  std::size_t at = 0;
  for (; most != 0; --most) {
    // Nothing stands before every character and at the end.
    const std::size_t found = from.empty() ? at : Find(text, from, at);
    if (found == text.npos) break;
    out.AppendPart(whole, text.substr(at, found - at));
    out.Append(to);
    at = found + from.size();
    if (!from.empty()) continue;
    if (at == text.size()) return out;
    const std::size_t length = ReadUtf8(text, at).length;
    out.AppendPart(whole, text.substr(at, length));
    at += length;
  }
  out.AppendPart(whole, text.substr(at));
  return out;
}

}  // namespace kv8::jinja
