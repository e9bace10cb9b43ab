#include "jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "jinja/number_text.h"
#include "jinja/python_text.h"
#include "jinja/string_literal.h"

namespace kv8::jinja {
namespace {

using Type = Token::Type;

/// One kind of line break, and none at the very end.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool StartsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name)
      : name_(name), source_(NormalizeLines(source)), rest_(source_) {}

  Result<std::vector<Token>> Run() {
    while (!rest_.empty()) KV8_RETURN_IF_ERROR(TakeTextAndTag());
    Add(Type::kEnd);
    return std::move(tokens_);
  }

 private:
  Error Bad(std::string what) const { return SyntaxError(name_, line_, std::move(what)); }

  void Add(Type type, std::string_view text = "") {
    tokens_.push_back(Token{.type = type, .line = line_, .text = std::string(text)});
  }

  /// Takes `count` bytes off the rest and counts their lines.
  std::string_view Take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    line_ += static_cast<int>(std::count(taken.begin(), taken.end(), '\n'));
    rest_.remove_prefix(count);
    if (!taken.empty()) line_starting_ = taken.back() == '\n';
    return taken;
  }
  bool TakeIf(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    Take(text.size());
    return true;
  }
  void TakeSpace() { Take(rest_.size() - Strip(rest_, Side::kLeft).size()); }

  /// Text in front of a tag that carries `sign` ('-', '+' or 0).
  std::string_view BeforeTag(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return Strip(text, Side::kRight);
    if (sign == '+' || is_variable) return text;
    // lstrip_blocks: indentation of a tag that stands first in its line.
    const std::size_t line_start = text.rfind('\n') + 1;  // 0 when there is none
    if (line_start == 0 && !line_starting_) return text;
    return Strip(text.substr(line_start), Side::kBoth).empty() ? text.substr(0, line_start) : text;
  }

  Result<void> TakeTextAndTag() {
    std::size_t at = rest_.find('{');
    while (at != rest_.npos && at + 1 < rest_.size() && rest_[at + 1] != '%' &&
           rest_[at + 1] != '{' && rest_[at + 1] != '#') {
      at = rest_.find('{', at + 1);
    }
    if (at == rest_.npos || at + 1 >= rest_.size()) {
      Add(Type::kText, rest_);
      Take(rest_.size());
      return {};
    }
    const char kind = rest_[at + 1];
    const char next = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
    const char sign = next == '-' || next == '+' ? next : '\0';
    const std::string_view text = BeforeTag(rest_.substr(0, at), sign, kind == '{');
    if (!text.empty()) Add(Type::kText, text);
    Take(at + 2 + (sign != 0));
    if (kind == '#') return SkipComment();
    if (kind == '{') return TakeTag(Type::kVariableBegin, Type::kVariableEnd, "}}");
    if (AtRaw()) return TakeRaw();
    return TakeTag(Type::kBlockBegin, Type::kBlockEnd, "%}");
  }

  Result<void> SkipComment() {
    const std::size_t end = rest_.find("#}");
    if (end == rest_.npos) return Bad("Missing end of comment tag");
    const char sign = end > 0 ? rest_[end - 1] : '\0';
    Take(end + 2);
    AfterTag(sign);
    return {};
  }

  /// White space after the end of a block or comment: all of it behind a '-', one line break
  /// (trim_blocks) without a sign.
  void AfterTag(char sign) {
    if (sign == '-') {
      TakeSpace();
    } else if (sign != '+') {
      TakeIf("\n");
    }
  }

  bool AtRaw() const {
    std::string_view text = Strip(rest_, Side::kLeft);
    if (!text.starts_with("raw")) return false;
    text = Strip(text.substr(3), Side::kLeft);
    return text.starts_with("%}") || text.starts_with("-%}");
  }

  Result<void> TakeRaw() {
    Take(rest_.find("%}"));
    const bool strip = source_[rest_.data() - source_.data() - 1] == '-';
    Take(2);
    if (strip) TakeSpace();
    for (std::size_t at = rest_.find("{%"); at != rest_.npos; at = rest_.find("{%", at + 1)) {
      std::string_view tag = rest_.substr(at + 2);
      const char sign = tag.starts_with('-') || tag.starts_with('+') ? tag[0] : '\0';
      tag = Strip(tag.substr(sign != 0), Side::kLeft);
      if (!tag.starts_with("endraw")) continue;
      tag = Strip(tag.substr(6), Side::kLeft);
      const char end_sign = tag.starts_with('-') || tag.starts_with('+') ? tag[0] : '\0';
      if (!tag.substr(end_sign != 0).starts_with("%}")) continue;
      const std::string_view text = BeforeTag(rest_.substr(0, at), sign, false);
      if (!text.empty()) Add(Type::kText, text);
      Take(tag.data() - rest_.data() + (end_sign != 0) + 2);
      AfterTag(end_sign);
      return {};
    }
    return Bad("Missing end of raw directive");
  }

  /// The inside of a tag and its end.
  Result<void> TakeTag(Type begin, Type end, std::string_view end_text) {
    Add(begin);
    brackets_.clear();
    while (!rest_.empty()) {
      if (brackets_.empty() && TakeTagEnd(end, end_text)) return {};
      KV8_RETURN_IF_ERROR(TakeToken());
    }
    return {};  // the parser finds the end of the template too early
  }

  bool TakeTagEnd(Type end, std::string_view end_text) {
    const bool is_block = end == Type::kBlockEnd;
    const char sign = rest_[0] == '-' || (is_block && rest_[0] == '+') ? rest_[0] : '\0';
    if (!rest_.substr(sign != 0).starts_with(end_text)) return false;
    Add(end);
    Take(end_text.size() + (sign != 0));
    if (is_block || sign == '-') AfterTag(sign);
    return true;
  }

  Result<void> TakeToken() {
    const char c = rest_[0];
    const std::size_t spaces = rest_.size() - Strip(rest_, Side::kLeft).size();
    if (spaces > 0) {
      Take(spaces);
      return {};
    }
    if (IsAsciiDigit(c)) return TakeNumber();
    if (StartsName(c)) {
      std::size_t size = 1;
      while (size < rest_.size() && (StartsName(rest_[size]) || IsAsciiDigit(rest_[size]))) ++size;
      Add(Type::kName, rest_.substr(0, size));
      Take(size);
      return {};
    }
    if (c == '"' || c == '\'') return TakeString();
    return TakeOperator();
  }

  Result<void> TakeNumber() {
    const bool after_dot =
        !tokens_.empty() && rest_.data() > source_.data() && rest_.data()[-1] == '.';
    auto number = ReadNumber(rest_, !after_dot);
    if (!number) return Bad("a number does not fit into 64 bits");
    AddLiteral(std::move(number->value));
    Take(number->length);
    return {};
  }

  Result<void> TakeString() {
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != rest_[0]) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return Bad("a string has no end");
    auto text = UnescapeString(rest_.substr(1, end - 1));
    if (!text) return Bad("a string has a malformed escape");
    AddLiteral(Value(std::move(*text)));
    Take(end + 1);
    return {};
  }

  void AddLiteral(Value value) {
    Add(Type::kLiteral);
    tokens_.back().value = std::move(value);
  }

  Result<void> TakeOperator() {
    static constexpr std::array<std::string_view, 25> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    for (const std::string_view op : kOperators) {
      if (!rest_.starts_with(op)) continue;
      KV8_RETURN_IF_ERROR(Balance(op[0]));
      Add(Type::kOperator, op);
      Take(op.size());
      return {};
    }
    return Bad(
        fmt::format("unexpected character '{}'", rest_.substr(0, ReadUtf8(rest_, 0).length)));
  }

  /// Keeps track of open brackets: inside of them "}}" and "%}" end nothing.
  Result<void> Balance(char op) {
    static constexpr std::string_view kOpen = "([{";
    static constexpr std::string_view kClose = ")]}";
    if (const std::size_t i = kOpen.find(op); i != kOpen.npos) brackets_ += kClose[i];
    if (kClose.find(op) == kClose.npos) return {};
    if (brackets_.empty()) return Bad(fmt::format("unexpected '{}'", op));
    if (brackets_.back() != op) {
      return Bad(fmt::format("unexpected '{}', expected '{}'", op, brackets_.back()));
    }
    brackets_.pop_back();
    return {};
  }

  std::string_view name_;
  std::string source_;
  std::string_view rest_;
  int line_ = 1;
  bool line_starting_ = true;  // what was taken last ended a line
  std::string brackets_;       // those that must close, innermost last
  std::vector<Token> tokens_;
};

}  // namespace

Error SyntaxError(std::string_view template_name, int line, std::string what) {
  return Error{.code = Code::kCorrupt,
               .what = std::move(what),
               .where = fmt::format("{}:{}", template_name, line),
               .remedy = "correct the template"};
}

Result<std::vector<Token>> Tokenize(std::string_view source, std::string_view template_name) {
  if (source.size() > kMaxTemplateBytes) {
    return SyntaxError(template_name, 1,
                       fmt::format("the template has {} bytes, at most {} are accepted",
                                   source.size(), kMaxTemplateBytes));
  }
  if (const auto at = FirstInvalidUtf8(source)) {
    return SyntaxError(template_name, 1, fmt::format("byte {} is not valid UTF-8", *at));
  }
  return Lexer(source, template_name).Run();
}

}  // namespace kv8::jinja
