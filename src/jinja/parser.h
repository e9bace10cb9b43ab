// Tokens -> syntax tree.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace kv8::jinja {

/// Most levels of expressions and statements inside one another.
inline constexpr int kMaxSyntaxDepth = 100;

/// Parses a whole template. Errors: kCorrupt with the line in `where`.
Result<ast::Block> ParseTemplate(std::string_view source, std::string_view template_name);

/// A reader of tokens, and the grammar of expressions: operators from loose to tight binding.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, std::string_view template_name)
      : tokens_(std::move(tokens)), name_(template_name) {}

  const Token& current() const { return tokens_[at_]; }

 protected:
  using Parsed = Result<ast::ExpressionPtr>;

  const Token& Peek() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void Next() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view op);
  Result<void> ExpectOperator(std::string_view op);
  Result<void> Expect(Token::Type type);
  Result<std::string> ExpectName();
  Error Bad(std::string what) const { return SyntaxError(name_, current().line, std::move(what)); }
  Error Unexpected(std::string_view expected) const;

  /// An expression, or a tuple without parentheses around it. `conditional`: `a if b` is allowed.
  Parsed ParseTuple(bool conditional = true, bool in_parentheses = false);
  Parsed ParseExpression();
  /// `name|filter(...)|...`, from the name of the first filter on; `subject` may be null.
  Parsed ParseFilters(ast::ExpressionPtr subject);

  /// Counts a level of nesting for as long as it lives.
  class Nesting {
   public:
    explicit Nesting(int& depth) : depth_(++depth) {}
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    bool too_deep() const { return depth_ > kMaxSyntaxDepth; }

   private:
    int& depth_;
  };
  Error TooDeep() const;

  int nesting_ = 0;
  // What the body of the macro at hand refers to.
  bool uses_caller_ = false;
  bool uses_varargs_ = false;
  bool uses_kwargs_ = false;

 private:
  Parsed Make(int line, ast::ExpressionNode node) const;

  Parsed ParseOr();
  Parsed ParseAnd();
  Parsed ParseNot();
  Parsed ParseComparison();
  Parsed ParseSum();
  Parsed ParseConcatenation();
  Parsed ParseProduct();
  Parsed ParsePower();
  Parsed ParseUnary(bool with_filters = true);
  Parsed ParseBinary(Parsed (ExpressionParser::*operand)(),
                     std::initializer_list<Operator> operators);
  std::optional<Operator> TakeComparison();
  Parsed ParsePrimary();
  Parsed ParseName();
  Parsed ParseLiteral();
  Parsed ParseList();
  Parsed ParseDict();
  Parsed ParsePostfix(ast::ExpressionPtr node);
  Parsed ParseAttribute(ast::ExpressionPtr object);
  Parsed ParseSubscript(ast::ExpressionPtr object);
  Parsed ParseSliceRest(ast::ExpressionPtr object, ast::ExpressionPtr start, int line);
  Parsed ParseCall(ast::ExpressionPtr callee);
  Parsed ParseFiltersAndTests(ast::ExpressionPtr node);
  Parsed ParseTest(ast::ExpressionPtr subject);
  Result<std::string> ParseDottedName();
  Result<ast::CallArguments> ParseArguments();
  Result<void> ParseArgument(ast::CallArguments& arguments);

  std::vector<Token> tokens_;
  std::string_view name_;
  std::size_t at_ = 0;
};

}  // namespace kv8::jinja
