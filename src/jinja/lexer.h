// Template text -> tokens, with trim_blocks and lstrip_blocks as chat templates have them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace kv8::jinja {

/// A template's longest text, and most tokens.
inline constexpr std::size_t kMaxTemplateBytes = std::size_t{4} << 20;

struct Token {
  enum class Type {
    kText,           // of the template, outside of tags
    kBlockBegin,     // {%
    kBlockEnd,       // %}
    kVariableBegin,  // {{
    kVariableEnd,    // }}
    kName,
    kLiteral,  // a string or number, in `value`
    kOperator,
    kEnd,
  };
  Type type = Type::kEnd;
  int line = 0;
  std::string text;  // of text, names and operators
  Value value;

  bool IsName(std::string_view name) const { return type == Type::kName && text == name; }
  bool IsOperator(std::string_view op) const { return type == Type::kOperator && text == op; }
};

/// All tokens, a kEnd last. `source` is valid UTF-8.
/// Errors: kCorrupt with the line in `where`.
Result<std::vector<Token>> Tokenize(std::string_view source, std::string_view template_name);

/// kCorrupt at a line of a template.
Error SyntaxError(std::string_view template_name, int line, std::string what);

}  // namespace kv8::jinja
