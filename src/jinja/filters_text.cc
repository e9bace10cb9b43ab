// Filters that make text.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/utf8.h"
#include "jinja/filters.h"
#include "jinja/json_text.h"
#include "jinja/python_format.h"
#include "jinja/python_repr.h"
#include "jinja/python_text.h"

namespace kv8::jinja {
namespace {

/// str() of what a filter gets; its parts are paid for. A text has been paid for.
Result<MarkedText> Shown(Runtime& runtime, const Value& value) {
  if (!value.Is(Kind::kString)) KV8_RETURN_IF_ERROR(runtime.Charge(value.extent().weight));
  return MarkedStr(value);
}

/// A filter that changes letters and keeps no place: all it makes is trusted as its least trusted
/// part.
template <std::string (*kFunction)(std::string_view)>
Result<Value> Mapped(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const MarkedText text, Shown(runtime, *args[0]));
  return Value(MarkedText(kFunction(text.text()), text.worst()));
}

Result<Value> StringFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(MarkedText text, Shown(runtime, *args[0]));
  return Value(std::move(text));
}

/// Jinja's own idea of a title: a word begins after white space, a hyphen or an opening bracket.
std::string JinjaTitle(std::string_view text) {
  std::string out;
  std::string word;
  const auto end_word = [&out, &word] {
    if (word.empty()) return;
    const std::size_t first = ReadUtf8(word, 0).length;
    out += Upper(std::string_view(word).substr(0, first)) +
           Lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (const std::string_view character : Characters(text)) {
    const char32_t c = ReadUtf8(character, 0).code_point;
    const bool separates = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (!separates) {
      word += character;
      continue;
    }
    end_word();
    out += character;
  }
  end_word();
  return out;
}

Result<Value> TrimFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(MarkedText shown, Shown(runtime, *args[0]));
  std::optional<std::string_view> characters;
  if (args[1] != nullptr && !args[1]->Is(Kind::kNone)) {
    KV8_ASSIGN_OR_RETURN(characters, TextOf(args[1], "", "characters to trim"));
  }
  const Value text(std::move(shown));
  return Value::PartOf(text, Strip(text.text(), Side::kBoth, characters));
}

Result<Value> ReplaceFilter(Runtime& runtime, const Bound& args) {
  std::int64_t most = -1;
  if (args[3] != nullptr && !args[3]->Is(Kind::kNone)) {
    KV8_ASSIGN_OR_RETURN(most, IntOf(args[3], -1, "the count"));
  }
  KV8_ASSIGN_OR_RETURN(const MarkedText text, Shown(runtime, *args[0]));
  return BoundedReplace(runtime, text, Str(*args[1]), MarkedStr(*args[2]), most);
}

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Result<Value> FormatFilter(Runtime&, const Arguments& arguments) {
  if (arguments.positional.empty()) return Failure("format needs a text");
  const Value text(MarkedStr(arguments.positional[0]));
  if (arguments.keyword.empty()) {
    KV8_ASSIGN_OR_RETURN(const Value values,
                         MakeTuple({arguments.positional.begin() + 1, arguments.positional.end()}));
    return FormatPercent(text, values);
  }
  if (arguments.positional.size() > 1) {
    return Failure("format takes either positional or keyword arguments");
  }
  Dict named;
  for (const auto& [name, value] : arguments.keyword) {
    KV8_RETURN_IF_ERROR(named.Set(Value(name), value));
  }
  KV8_ASSIGN_OR_RETURN(const Value values, MakeDict(std::move(named)));
  return FormatPercent(text, values);
}

/// What a level is indented by: spaces by number, or a text.
Result<std::string> Indentation(const Value* width, std::int64_t fallback) {
  constexpr std::int64_t kMost = 1000;
  if (width != nullptr && width->Is(Kind::kString)) return width->text();
  KV8_ASSIGN_OR_RETURN(const std::int64_t spaces, IntOf(width, fallback, "the indentation"));
  return std::string(std::clamp<std::int64_t>(spaces, 0, kMost), ' ');
}

Result<Value> IndentFilter(Runtime& runtime, const Bound& args) {
  KV8_RETURN_IF_ERROR(TextOf(args[0], "", "what is indented"));
  KV8_ASSIGN_OR_RETURN(const std::string indentation, Indentation(args[1], 4));
  const bool first = FlagOf(args[2], false);
  const bool blank = FlagOf(args[3], false);
  // With a line break behind it even an empty text has a line, and a last empty one is kept.
  MarkedText ended = args[0]->marked();
  ended += "\n";
  const std::vector<std::string_view> lines = SplitLines(ended.text());
  KV8_RETURN_IF_ERROR(runtime.Charge(lines.size() * (1 + indentation.size() / kBytesPerWeight)));
  const Author author = args[1] == nullptr || !args[1]->Is(Kind::kString)
                            ? Author::kTemplate
                            : args[1]->marked().worst();
  MarkedText out;
  if (first) out.Append(indentation, author);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n";
    if (i > 0 && (blank || !lines[i].empty())) out.Append(indentation, author);
    out.AppendPart(ended, lines[i]);
    if (out.size() > kMaxStringBytes) return StringTooLong();
  }
  return Value(std::move(out));
}

Result<Value> TruncateFilter(Runtime&, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::string_view text, TextOf(args[0], "", "what is truncated"));
  KV8_ASSIGN_OR_RETURN(const std::int64_t length, IntOf(args[1], 255, "the length"));
  KV8_ASSIGN_OR_RETURN(const std::string_view end, TextOf(args[3], "...", "the end"));
  std::int64_t leeway = 5;
  if (args[4] != nullptr && !args[4]->Is(Kind::kNone)) {
    KV8_ASSIGN_OR_RETURN(leeway, IntOf(args[4], 5, "the leeway"));
  }
  if (length < CodePoints(end) || leeway < 0) return Failure("truncate: the length is too small");
  if (args[0]->characters().length() - leeway <= length) return *args[0];
  std::string_view kept = text.substr(0, args[0]->characters().OffsetOf(length - CodePoints(end)));
  if (!FlagOf(args[2], false)) kept = kept.substr(0, std::min(kept.rfind(' '), kept.size()));
  MarkedText out;
  out.AppendPart(args[0]->marked(), kept);
  args[3] == nullptr ? out.Append(end, Author::kTemplate) : out.Append(args[3]->marked());
  return Value(std::move(out));
}

Result<Value> CenterFilter(Runtime& runtime, const Bound& args) {
  KV8_ASSIGN_OR_RETURN(const std::int64_t width, IntOf(args[1], 80, "the width"));
  KV8_ASSIGN_OR_RETURN(MarkedText text, Shown(runtime, *args[0]));
  return PadText(Value(std::move(text)), width, Value(" "), Side::kBoth);
}

Result<Value> WordCountFilter(Runtime& runtime, const Bound& args) {
  std::int64_t words = 0;
  bool inside = false;
  KV8_ASSIGN_OR_RETURN(const MarkedText shown, Shown(runtime, *args[0]));
  const std::string& text = shown.text();
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = ReadUtf8(text, at);
    const bool is_word = IsWordCharacter(c.code_point);
    if (is_word && !inside) ++words;
    inside = is_word;
    at += c.length;
  }
  return Value(words);
}

std::string UrlQuote(std::string_view text) {
  static constexpr std::string_view kPlain = "-._~/";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       kPlain.find(c) != kPlain.npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Result<Value> ToJsonFilter(Runtime& runtime, const Bound& args) {
  JsonStyle style;
  style.ensure_ascii = FlagOf(args[1], false);
  if (args[2] != nullptr && !args[2]->Is(Kind::kNone)) {
    KV8_ASSIGN_OR_RETURN(style.indent, Indentation(args[2], 0));
    style.item_separator.assign(1, ',');
  }
  if (args[3] != nullptr && !args[3]->Is(Kind::kNone)) {
    KV8_ASSIGN_OR_RETURN(const auto separators, runtime.Items(*args[3]));
    if (separators.size() != 2) return Failure("tojson: separators must be two texts");
    style.item_separator = Str(separators[0]);
    style.key_separator = Str(separators[1]);
  }
  style.sort_keys = FlagOf(args[4], false);
  KV8_RETURN_IF_ERROR(runtime.Charge(args[0]->extent().weight));
  KV8_ASSIGN_OR_RETURN(MarkedText json, ToJson(*args[0], style));
  return Value(std::move(json));
}

}  // namespace

std::vector<Native> TextFilters() {
  return {
      {"capitalize", "s", Mapped<Capitalize>},
      {"center", "value width?", CenterFilter},
      {"e", "s", Mapped<Escape>},
      {"escape", "s", Mapped<Escape>},
      {"forceescape", "value", Mapped<Escape>},
      {"format", FormatFilter},
      {"indent", "s width? first? blank?", IndentFilter},
      {"lower", "s", Mapped<Lower>},
      {"replace", "s old new count?", ReplaceFilter},
      {"safe", "value", StringFilter},
      {"string", "object", StringFilter},
      {"title", "s", Mapped<JinjaTitle>},
      {"tojson", "x ensure_ascii? indent? separators? sort_keys?", ToJsonFilter},
      {"trim", "value chars?", TrimFilter},
      {"truncate", "s length? killwords? end? leeway?", TruncateFilter},
      {"upper", "s", Mapped<Upper>},
      {"urlencode", "value", Mapped<UrlQuote>},
      {"wordcount", "s", WordCountFilter},
  };
}

}  // namespace kv8::jinja
