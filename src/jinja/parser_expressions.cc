#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "jinja/parser.h"

namespace kv8::jinja {
namespace {

/// Levels of what an expression consists of, its own not counted.
class DepthOf {
 public:
  int operator()(const ast::Literal&) const { return 0; }
  int operator()(const ast::Name&) const { return 0; }
  int operator()(const ast::ListLiteral& node) const { return Of(node.items); }
  int operator()(const ast::TupleLiteral& node) const { return Of(node.items); }
  int operator()(const ast::DictLiteral& node) const {
    int depth = 0;
    for (const auto& [key, value] : node.entries) depth = std::max({depth, Of(key), Of(value)});
    return depth;
  }
  int operator()(const ast::Not& node) const { return Of(node.operand); }
  int operator()(const ast::Sign& node) const { return Of(node.operand); }
  int operator()(const ast::Binary& node) const { return std::max(Of(node.left), Of(node.right)); }
  int operator()(const ast::Logic& node) const { return std::max(Of(node.left), Of(node.right)); }
  int operator()(const ast::Comparison& node) const {
    int depth = Of(node.first);
    for (const auto& [op, operand] : node.rest) depth = std::max(depth, Of(operand));
    return depth;
  }
  int operator()(const ast::Concatenation& node) const { return Of(node.parts); }
  int operator()(const ast::Conditional& node) const {
    return std::max({Of(node.condition), Of(node.then), Of(node.otherwise)});
  }
  int operator()(const ast::Attribute& node) const { return Of(node.object); }
  int operator()(const ast::Item& node) const { return std::max(Of(node.object), Of(node.key)); }
  int operator()(const ast::SliceOf& node) const {
    return std::max({Of(node.object), Of(node.start), Of(node.stop), Of(node.step)});
  }
  int operator()(const ast::Call& node) const {
    return std::max(Of(node.callee), Of(node.arguments));
  }
  int operator()(const ast::Filter& node) const {
    return std::max(Of(node.subject), Of(node.arguments));
  }
  int operator()(const ast::Test& node) const {
    return std::max(Of(node.subject), Of(node.arguments));
  }

 private:
  static int Of(const ast::ExpressionPtr& node) { return node == nullptr ? 0 : node->depth; }
  static int Of(const ast::Expressions& nodes) {
    int depth = 0;
    for (const auto& node : nodes) depth = std::max(depth, Of(node));
    return depth;
  }
  static int Of(const ast::CallArguments& arguments) {
    int depth = std::max(
        {Of(arguments.positional), Of(arguments.all_positional), Of(arguments.all_keyword)});
    for (const auto& [name, value] : arguments.keyword) depth = std::max(depth, Of(value));
    return depth;
  }
};

bool EndsTuple(const Token& token) {
  return token.type == Token::Type::kVariableEnd || token.type == Token::Type::kBlockEnd ||
         token.IsOperator(")");
}

}  // namespace

bool ExpressionParser::SkipName(std::string_view name) {
  if (!current().IsName(name)) return false;
  Next();
  return true;
}

bool ExpressionParser::SkipOperator(std::string_view op) {
  if (!current().IsOperator(op)) return false;
  Next();
  return true;
}

Result<void> ExpressionParser::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) return Unexpected(fmt::format("'{}'", op));
  return {};
}

Result<void> ExpressionParser::Expect(Token::Type type) {
  if (current().type != type) {
    return Unexpected(type == Token::Type::kBlockEnd ? "'%}'" : "'}}'");
  }
  Next();
  return {};
}

Result<std::string> ExpressionParser::ExpectName() {
  if (current().type != Token::Type::kName) return Unexpected("a name");
  std::string name = current().text;
  Next();
  return name;
}

Error ExpressionParser::Unexpected(std::string_view expected) const {
  std::string found = "the end of the template";
  switch (current().type) {
    case Token::Type::kEnd:
      break;
    case Token::Type::kBlockEnd:
      found = "'%}'";
      break;
    case Token::Type::kVariableEnd:
      found = "'}}'";
      break;
    case Token::Type::kLiteral:
      found = fmt::format("a literal of type {}", current().value.TypeName());
      break;
    default:
      found = fmt::format("'{}'", current().text);
  }
  return Bad(fmt::format("expected {}, found {}", expected, found));
}

Error ExpressionParser::TooDeep() const {
  return Bad(fmt::format("nested deeper than {} levels", kMaxSyntaxDepth));
}

ExpressionParser::Parsed ExpressionParser::Make(int line, ast::ExpressionNode node) const {
  auto expression = std::make_unique<ast::Expression>();
  expression->line = line;
  expression->depth = 1 + std::visit(DepthOf(), node);
  expression->node = std::move(node);
  // Chains such as a + b + c nest in the tree although nothing nests in the text.
  if (expression->depth > kMaxSyntaxDepth) return TooDeep();
  return expression;
}

ExpressionParser::Parsed ExpressionParser::ParseTuple(bool conditional, bool in_parentheses) {
  const int line = current().line;
  ast::Expressions items;
  bool is_tuple = false;
  // A comma may stand last; in the head of a loop "recursive" may follow it.
  while (!EndsTuple(current()) && !(is_tuple && current().IsName("recursive"))) {
    KV8_ASSIGN_OR_RETURN(auto item, conditional ? ParseExpression() : ParseOr());
    items.push_back(std::move(item));
    if (!SkipOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return Make(line, ast::TupleLiteral{std::move(items)});
  if (!items.empty()) return std::move(items[0]);
  if (!in_parentheses) return Unexpected("an expression");
  return Make(line, ast::TupleLiteral{});
}

ExpressionParser::Parsed ExpressionParser::ParseExpression() {
  const Nesting nesting(nesting_);
  if (nesting.too_deep()) return TooDeep();
  const int line = current().line;
  KV8_ASSIGN_OR_RETURN(auto then, ParseOr());
  while (SkipName("if")) {
    KV8_ASSIGN_OR_RETURN(auto condition, ParseOr());
    ast::ExpressionPtr otherwise;
    if (SkipName("else")) {
      KV8_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    KV8_ASSIGN_OR_RETURN(then, Make(line, ast::Conditional{std::move(condition), std::move(then),
                                                           std::move(otherwise)}));
  }
  return then;
}

ExpressionParser::Parsed ExpressionParser::ParseOr() {
  KV8_ASSIGN_OR_RETURN(auto left, ParseAnd());
  while (current().IsName("or")) {
    const int line = current().line;
    Next();
    KV8_ASSIGN_OR_RETURN(auto right, ParseAnd());
    KV8_ASSIGN_OR_RETURN(left, Make(line, ast::Logic{false, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::ParseAnd() {
  KV8_ASSIGN_OR_RETURN(auto left, ParseNot());
  while (current().IsName("and")) {
    const int line = current().line;
    Next();
    KV8_ASSIGN_OR_RETURN(auto right, ParseNot());
    KV8_ASSIGN_OR_RETURN(left, Make(line, ast::Logic{true, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::ParseNot() {
  const int line = current().line;
  if (!SkipName("not")) return ParseComparison();
  const Nesting nesting(nesting_);
  if (nesting.too_deep()) return TooDeep();
  KV8_ASSIGN_OR_RETURN(auto operand, ParseNot());
  return Make(line, ast::Not{std::move(operand)});
}

std::optional<Operator> ExpressionParser::TakeComparison() {
  static constexpr std::array kOperators = {Operator::kEqual,   Operator::kNotEqual,
                                            Operator::kLess,    Operator::kLessEqual,
                                            Operator::kGreater, Operator::kGreaterEqual};
  for (const Operator op : kOperators) {
    if (SkipOperator(Spelling(op))) return op;
  }
  if (SkipName("in")) return Operator::kIn;
  if (!current().IsName("not") || !Peek().IsName("in")) return std::nullopt;
  Next();
  Next();
  return Operator::kNotIn;
}

ExpressionParser::Parsed ExpressionParser::ParseComparison() {
  const int line = current().line;
  KV8_ASSIGN_OR_RETURN(auto first, ParseSum());
  ast::Comparison comparison;
  while (const auto op = TakeComparison()) {
    KV8_ASSIGN_OR_RETURN(auto operand, ParseSum());
    comparison.rest.emplace_back(*op, std::move(operand));
  }
  if (comparison.rest.empty()) return first;
  comparison.first = std::move(first);
  return Make(line, std::move(comparison));
}

ExpressionParser::Parsed ExpressionParser::ParseBinary(Parsed (ExpressionParser::*operand)(),
                                                       std::initializer_list<Operator> operators) {
  KV8_ASSIGN_OR_RETURN(auto left, (this->*operand)());
  while (true) {
    const int line = current().line;
    const auto op = std::find_if(operators.begin(), operators.end(), [this](Operator candidate) {
      return SkipOperator(Spelling(candidate));
    });
    if (op == operators.end()) return left;
    KV8_ASSIGN_OR_RETURN(auto right, (this->*operand)());
    KV8_ASSIGN_OR_RETURN(left, Make(line, ast::Binary{*op, std::move(left), std::move(right)}));
  }
}

ExpressionParser::Parsed ExpressionParser::ParseSum() {
  return ParseBinary(&ExpressionParser::ParseConcatenation, {Operator::kAdd, Operator::kSubtract});
}

ExpressionParser::Parsed ExpressionParser::ParseConcatenation() {
  const int line = current().line;
  KV8_ASSIGN_OR_RETURN(auto first, ParseProduct());
  if (!current().IsOperator("~")) return first;
  ast::Concatenation concatenation;
  concatenation.parts.push_back(std::move(first));
  while (SkipOperator("~")) {
    KV8_ASSIGN_OR_RETURN(auto part, ParseProduct());
    concatenation.parts.push_back(std::move(part));
  }
  return Make(line, std::move(concatenation));
}

ExpressionParser::Parsed ExpressionParser::ParseProduct() {
  return ParseBinary(&ExpressionParser::ParsePower, {Operator::kMultiply, Operator::kDivide,
                                                     Operator::kFloorDivide, Operator::kModulo});
}

ExpressionParser::Parsed ExpressionParser::ParsePower() {
  KV8_ASSIGN_OR_RETURN(auto left, ParseUnary());
  while (current().IsOperator("**")) {
    const int line = current().line;
    Next();
    KV8_ASSIGN_OR_RETURN(auto right, ParseUnary());
    KV8_ASSIGN_OR_RETURN(
        left, Make(line, ast::Binary{Operator::kPower, std::move(left), std::move(right)}));
  }
  return left;
}

ExpressionParser::Parsed ExpressionParser::ParseUnary(bool with_filters) {
  const int line = current().line;
  ast::ExpressionPtr node;
  const bool negative = current().IsOperator("-");
  if (negative || current().IsOperator("+")) {
    const Nesting nesting(nesting_);
    if (nesting.too_deep()) return TooDeep();
    Next();
    KV8_ASSIGN_OR_RETURN(auto operand, ParseUnary(false));
    KV8_ASSIGN_OR_RETURN(node, Make(line, ast::Sign{negative, std::move(operand)}));
  } else {
    KV8_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  KV8_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  if (!with_filters) return node;
  return ParseFiltersAndTests(std::move(node));
}

ExpressionParser::Parsed ExpressionParser::ParsePrimary() {
  const int line = current().line;
  if (current().type == Token::Type::kName) return ParseName();
  if (current().type == Token::Type::kLiteral) return ParseLiteral();
  if (current().IsOperator("[")) return ParseList();
  if (current().IsOperator("{")) return ParseDict();
  if (!SkipOperator("(")) return Unexpected("an expression");
  KV8_ASSIGN_OR_RETURN(auto inner, ParseTuple(true, /*in_parentheses=*/true));
  KV8_RETURN_IF_ERROR(ExpectOperator(")"));
  inner->line = line;
  return inner;
}

ExpressionParser::Parsed ExpressionParser::ParseName() {
  const int line = current().line;
  std::string name = current().text;
  Next();
  if (name == "true" || name == "True") return Make(line, ast::Literal{Value(true)});
  if (name == "false" || name == "False") return Make(line, ast::Literal{Value(false)});
  if (name == "none" || name == "None") return Make(line, ast::Literal{Value()});
  uses_caller_ = uses_caller_ || name == "caller";
  uses_varargs_ = uses_varargs_ || name == "varargs";
  uses_kwargs_ = uses_kwargs_ || name == "kwargs";
  return Make(line, ast::Name{std::move(name)});
}

ExpressionParser::Parsed ExpressionParser::ParseLiteral() {
  const int line = current().line;
  Value value = current().value;
  Next();
  if (!value.Is(Kind::kString)) return Make(line, ast::Literal{std::move(value)});
  std::string text = value.text();
  while (current().type == Token::Type::kLiteral && current().value.Is(Kind::kString)) {
    text += current().value.text();
    Next();
  }
  return Make(line, ast::Literal{Value(std::move(text))});
}

ExpressionParser::Parsed ExpressionParser::ParseList() {
  const int line = current().line;
  Next();
  ast::ListLiteral list;
  while (!current().IsOperator("]")) {
    KV8_ASSIGN_OR_RETURN(auto item, ParseExpression());
    list.items.push_back(std::move(item));
    if (!SkipOperator(",")) break;
  }
  KV8_RETURN_IF_ERROR(ExpectOperator("]"));
  return Make(line, std::move(list));
}

ExpressionParser::Parsed ExpressionParser::ParseDict() {
  const int line = current().line;
  Next();
  ast::DictLiteral dict;
  while (!current().IsOperator("}")) {
    KV8_ASSIGN_OR_RETURN(auto key, ParseExpression());
    KV8_RETURN_IF_ERROR(ExpectOperator(":"));
    KV8_ASSIGN_OR_RETURN(auto value, ParseExpression());
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (!SkipOperator(",")) break;
  }
  KV8_RETURN_IF_ERROR(ExpectOperator("}"));
  return Make(line, std::move(dict));
}

}  // namespace kv8::jinja
