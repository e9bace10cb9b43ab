#include "jinja/python_repr.h"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace kv8::jinja {
namespace {

/// str.isprintable() of one character.
bool IsPrintable(char32_t code_point) {
  switch (u_charType(static_cast<UChar32>(code_point))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
      return false;
    case U_SPACE_SEPARATOR:
      return code_point == ' ';
    default:
      return true;
  }
}

void AppendEscaped(char32_t c, std::string& out) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
  } else if (c < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
  }
}

void AppendRepr(const Value& value, MarkedText& out);

void AppendItems(const std::vector<Value>& items, MarkedText& out) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(items[i], out);
  }
}

void AppendSequence(const Value& value, MarkedText& out) {
  const Sequence& sequence = value.sequence();
  switch (value.kind()) {
    case Kind::kList:
      out += "[";
      AppendItems(sequence.items, out);
      out += "]";
      return;
    case Kind::kTuple:
      out += "(";
      AppendItems(sequence.items, out);
      out += sequence.items.size() == 1 ? ",)" : ")";
      return;
    case Kind::kView:
      out += sequence.label + "([";
      AppendItems(sequence.items, out);
      out += "])";
      return;
    case Kind::kIterator:
      out += "<" + sequence.label + ">";
      return;
    default:
      out += sequence.label;
  }
}

void AppendDict(const Dict& dict, MarkedText& out) {
  out += "{";
  const char* separator = "";
  for (const auto& [key, item] : dict.entries()) {
    out += separator;
    separator = ", ";
    AppendRepr(key, out);
    out += ": ";
    AppendRepr(item, out);
  }
  out += "}";
}

void AppendRepr(const Value& value, MarkedText& out) {
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      return;
    case Kind::kNone:
      out += "None";
      return;
    case Kind::kBool:
      out += value.boolean() ? "True" : "False";
      return;
    case Kind::kInt:
      out += fmt::format("{}", *value.AsInt());
      return;
    case Kind::kLargeInt:
      out += value.digits();
      return;
    case Kind::kFloat:
      out += ReprFloat(value.real());
      return;
    case Kind::kString:
      out.Append(ReprString(value.text()), value.marked().worst());
      return;
    case Kind::kObject:
      out += fmt::format("<{}>", value.TypeName());
      return;
    case Kind::kDict:
      AppendDict(value.dict(), out);
      return;
    default:
      AppendSequence(value, out);
  }
}

}  // namespace

void AppendStr(const Value& value, MarkedText& out) {
  if (value.Is(Kind::kString)) {
    out.Append(value.marked());
  } else if (!value.Is(Kind::kUndefined)) {
    AppendRepr(value, out);
  }
}

MarkedText MarkedStr(const Value& value) {
  MarkedText out;
  AppendStr(value, out);
  return out;
}

std::string Str(const Value& value) {
  return MarkedStr(value).Take();
}

std::string Repr(const Value& value) {
  MarkedText out;
  AppendRepr(value, out);
  return std::move(out).Take();
}

std::string ReprFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, end.ptr - buffer);
  const std::size_t e = text.find('e');
  const std::size_t point = text.find('.');
  const int digits = point == text.npos ? 0 : static_cast<int>(e - point - 1);  // of the fraction
  const int exponent = std::stoi(std::string(text.substr(e + 1)));
  // Python's rule: plain notation from 1e-4 up to, but not including, 1e16.
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string out = fmt::format("{:.{}f}", value, std::max(0, digits - exponent));
  if (out.find('.') == out.npos) out += ".0";
  return out;
}

std::string ReprString(std::string_view text) {
  const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    if (c.code_point == static_cast<char32_t>(quote) || c.code_point == '\\') {
      out += '\\';
      out += text[at];
    } else if (IsPrintable(c.code_point)) {
      out += text.substr(at, c.length);
    } else {
      AppendEscaped(c.code_point, out);
    }
    at += c.length;
  }
  return out += quote;
}

}  // namespace kv8::jinja
