// Attributes, items, calls, filters and tests: what stands behind an expression.
#include "jinja/parser.h"

namespace kv8::jinja {

ExpressionParser::Parsed ExpressionParser::ParsePostfix(ast::ExpressionPtr node) {
  while (true) {
    if (current().IsOperator(".")) {
      KV8_ASSIGN_OR_RETURN(node, ParseAttribute(std::move(node)));
    } else if (current().IsOperator("[")) {
      KV8_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (current().IsOperator("(")) {
      KV8_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Parsed ExpressionParser::ParseAttribute(ast::ExpressionPtr object) {
  const int line = current().line;
  Next();
  if (current().type == Token::Type::kLiteral && current().value.Is(Kind::kInt)) {
    KV8_ASSIGN_OR_RETURN(auto key, Make(line, ast::Literal{current().value}));
    Next();
    return Make(line, ast::Item{std::move(object), std::move(key)});
  }
  KV8_ASSIGN_OR_RETURN(std::string name, ExpectName());
  return Make(line, ast::Attribute{std::move(object), std::move(name)});
}

ExpressionParser::Parsed ExpressionParser::ParseSubscript(ast::ExpressionPtr object) {
  const int line = current().line;
  Next();
  ast::ExpressionPtr key;
  if (!current().IsOperator(":")) {
    KV8_ASSIGN_OR_RETURN(key, ParseExpression());
  }
  if (current().IsOperator(":")) return ParseSliceRest(std::move(object), std::move(key), line);
  if (current().IsOperator(",")) {
    ast::TupleLiteral keys;
    keys.items.push_back(std::move(key));
    while (SkipOperator(",")) {
      KV8_ASSIGN_OR_RETURN(auto next, ParseExpression());
      keys.items.push_back(std::move(next));
    }
    KV8_ASSIGN_OR_RETURN(key, Make(line, std::move(keys)));
  }
  KV8_RETURN_IF_ERROR(ExpectOperator("]"));
  return Make(line, ast::Item{std::move(object), std::move(key)});
}

ExpressionParser::Parsed ExpressionParser::ParseSliceRest(ast::ExpressionPtr object,
                                                          ast::ExpressionPtr start, int line) {
  ast::SliceOf slice{std::move(object), std::move(start), nullptr, nullptr};
  for (ast::ExpressionPtr* part : {&slice.stop, &slice.step}) {
    if (!SkipOperator(":")) break;
    if (current().IsOperator(":") || current().IsOperator("]")) continue;
    KV8_ASSIGN_OR_RETURN(*part, ParseExpression());
  }
  KV8_RETURN_IF_ERROR(ExpectOperator("]"));
  return Make(line, std::move(slice));
}

ExpressionParser::Parsed ExpressionParser::ParseCall(ast::ExpressionPtr callee) {
  const int line = current().line;
  KV8_ASSIGN_OR_RETURN(auto arguments, ParseArguments());
  return Make(line, ast::Call{std::move(callee), std::move(arguments)});
}

ExpressionParser::Parsed ExpressionParser::ParseFiltersAndTests(ast::ExpressionPtr node) {
  while (true) {
    if (SkipOperator("|")) {
      KV8_ASSIGN_OR_RETURN(node, ParseFilters(std::move(node)));
    } else if (SkipName("is")) {
      KV8_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (current().IsOperator("(")) {
      KV8_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Parsed ExpressionParser::ParseFilters(ast::ExpressionPtr subject) {
  do {
    const int line = current().line;
    KV8_ASSIGN_OR_RETURN(std::string name, ParseDottedName());
    ast::CallArguments arguments;
    if (current().IsOperator("(")) {
      KV8_ASSIGN_OR_RETURN(arguments, ParseArguments());
    }
    KV8_ASSIGN_OR_RETURN(subject, Make(line, ast::Filter{std::move(subject), std::move(name),
                                                         std::move(arguments)}));
  } while (SkipOperator("|"));
  return subject;
}

ExpressionParser::Parsed ExpressionParser::ParseTest(ast::ExpressionPtr subject) {
  const int line = current().line;
  const bool negated = SkipName("not");
  KV8_ASSIGN_OR_RETURN(std::string name, ParseDottedName());
  ast::CallArguments arguments;
  const Token& next = current();
  const bool is_argument = next.type == Token::Type::kLiteral || next.IsOperator("[") ||
                           next.IsOperator("{") ||
                           (next.type == Token::Type::kName && !next.IsName("else") &&
                            !next.IsName("or") && !next.IsName("and"));
  if (next.IsOperator("(")) {
    KV8_ASSIGN_OR_RETURN(arguments, ParseArguments());
  } else if (next.IsName("is")) {
    return Bad("tests cannot be chained with is");
  } else if (is_argument) {
    KV8_ASSIGN_OR_RETURN(auto argument, ParsePrimary());
    KV8_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    arguments.positional.push_back(std::move(argument));
  }
  KV8_ASSIGN_OR_RETURN(
      auto test, Make(line, ast::Test{std::move(subject), std::move(name), std::move(arguments)}));
  if (!negated) return test;
  return Make(line, ast::Not{std::move(test)});
}

Result<std::string> ExpressionParser::ParseDottedName() {
  KV8_ASSIGN_OR_RETURN(std::string name, ExpectName());
  while (SkipOperator(".")) {
    KV8_ASSIGN_OR_RETURN(const std::string part, ExpectName());
    name += "." + part;
  }
  return name;
}

Result<ast::CallArguments> ExpressionParser::ParseArguments() {
  KV8_RETURN_IF_ERROR(ExpectOperator("("));
  ast::CallArguments arguments;
  while (!current().IsOperator(")")) {
    KV8_RETURN_IF_ERROR(ParseArgument(arguments));
    if (!SkipOperator(",")) break;
  }
  KV8_RETURN_IF_ERROR(ExpectOperator(")"));
  return arguments;
}

Result<void> ExpressionParser::ParseArgument(ast::CallArguments& arguments) {
  const bool unpacked = arguments.all_positional != nullptr || arguments.all_keyword != nullptr;
  const Error invalid = Bad("arguments are in an order that calls do not allow");
  if (SkipOperator("*")) {
    if (unpacked) return invalid;
    KV8_ASSIGN_OR_RETURN(arguments.all_positional, ParseExpression());
    return {};
  }
  if (arguments.all_keyword != nullptr) return invalid;
  if (SkipOperator("**")) {
    KV8_ASSIGN_OR_RETURN(arguments.all_keyword, ParseExpression());
    return {};
  }
  if (current().type == Token::Type::kName && Peek().IsOperator("=")) {
    std::string name = current().text;
    Next();
    Next();
    KV8_ASSIGN_OR_RETURN(auto value, ParseExpression());
    arguments.keyword.emplace_back(std::move(name), std::move(value));
    return {};
  }
  if (unpacked || !arguments.keyword.empty()) return invalid;
  KV8_ASSIGN_OR_RETURN(auto value, ParseExpression());
  arguments.positional.push_back(std::move(value));
  return {};
}

}  // namespace kv8::jinja
