// Statements: the tags of a template.
#include "jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

namespace kv8::jinja {
namespace {

using Type = Token::Type;

class TemplateParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Result<ast::Block> Parse() {
    KV8_ASSIGN_OR_RETURN(ast::Block block, ParseBlock({}));
    return block;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  bool AtTag(Ends names) const {
    return current().type == Type::kBlockBegin &&
           std::any_of(names.begin(), names.end(),
                       [this](std::string_view name) { return Peek().IsName(name); });
  }

  /// Statements up to a tag of `ends`, which is left to be read from its name on; to the end of the
  /// template when there are none.
  Result<ast::Block> ParseBlock(Ends ends) {
    const Nesting nesting(nesting_);
    if (nesting.too_deep()) return TooDeep();
    ast::Block block;
    while (current().type != Type::kEnd) {
      if (AtTag(ends)) {
        Next();
        return block;
      }
      const int line = current().line;
      KV8_ASSIGN_OR_RETURN(ast::Statement statement, ParseStatement());
      statement.line = line;
      block.push_back(std::move(statement));
    }
    if (ends.size() > 0) return Bad(fmt::format("'{}' is missing", *(ends.end() - 1)));
    return block;
  }

  /// The body of a statement whose head has been read up to its "%}".
  Result<ast::Block> ParseBody(Ends ends) {
    SkipOperator(":");
    KV8_RETURN_IF_ERROR(Expect(Type::kBlockEnd));
    return ParseBlock(ends);
  }

  /// ParseBody, and the tag that ends it.
  Result<ast::Block> ParseWholeBody(std::string_view end) {
    KV8_ASSIGN_OR_RETURN(ast::Block body, ParseBody({end}));
    Next();
    KV8_RETURN_IF_ERROR(Expect(Type::kBlockEnd));
    return body;
  }

  Result<ast::Statement> ParseStatement() {
    if (current().type == Type::kText) {
      ast::Text text{current().text};
      Next();
      return ast::Statement{.node = std::move(text)};
    }
    if (current().type == Type::kVariableBegin) {
      Next();
      KV8_ASSIGN_OR_RETURN(auto value, ParseTuple());
      KV8_RETURN_IF_ERROR(Expect(Type::kVariableEnd));
      return ast::Statement{.node = ast::Output{std::move(value)}};
    }
    Next();  // the "{%"
    return ParseTag();
  }

  Result<ast::Statement> ParseTag() {
    struct Tag {
      std::string_view name;
      Result<ast::Statement> (TemplateParser::*parse)();
    };
    static constexpr std::array kTags = {
        Tag{"if", &TemplateParser::ParseIf},
        Tag{"for", &TemplateParser::ParseFor},
        Tag{"set", &TemplateParser::ParseSet},
        Tag{"macro", &TemplateParser::ParseMacro},
        Tag{"call", &TemplateParser::ParseCallBlock},
        Tag{"filter", &TemplateParser::ParseFilterBlock},
        Tag{"with", &TemplateParser::ParseWith},
        Tag{"generation", &TemplateParser::ParseGeneration},
        Tag{"print", &TemplateParser::ParsePrint},
        Tag{"break", &TemplateParser::ParseBreak},
        Tag{"continue", &TemplateParser::ParseContinue},
    };
    for (const Tag& tag : kTags) {
      if (SkipName(tag.name)) return (this->*tag.parse)();
    }
    if (current().type != Type::kName) return Unexpected("the name of a tag");
    return Bad(fmt::format("unknown tag '{}', or one that has no place here", current().text));
  }

  Result<ast::Statement> ParseIf() {
    ast::If node;
    while (true) {
      KV8_ASSIGN_OR_RETURN(auto condition, ParseTuple(/*conditional=*/false));
      KV8_ASSIGN_OR_RETURN(ast::Block body, ParseBody({"elif", "else", "endif"}));
      node.branches.emplace_back(std::move(condition), std::move(body));
      if (!SkipName("elif")) break;
    }
    if (SkipName("else")) {
      KV8_ASSIGN_OR_RETURN(node.otherwise, ParseBody({"endif"}));
    }
    Next();
    KV8_RETURN_IF_ERROR(Expect(Type::kBlockEnd));
    return ast::Statement{.node = std::move(node)};
  }

  Result<ast::Statement> ParseFor() {
    ast::For node;
    KV8_ASSIGN_OR_RETURN(node.target, ParseTargets("in"));
    if (!SkipName("in")) return Unexpected("'in'");
    KV8_ASSIGN_OR_RETURN(node.items, ParseTuple(/*conditional=*/false));
    if (SkipName("if")) {
      KV8_ASSIGN_OR_RETURN(node.condition, ParseExpression());
    }
    node.recursive = SkipName("recursive");
    ++loops_;
    auto body = ParseBody({"else", "endfor"});
    --loops_;
    if (!body.ok()) return std::move(body).error();
    node.body = std::move(*body);
    if (SkipName("else")) {
      KV8_ASSIGN_OR_RETURN(node.otherwise, ParseBody({"endfor"}));
    }
    Next();
    KV8_RETURN_IF_ERROR(Expect(Type::kBlockEnd));
    return ast::Statement{.node = std::move(node)};
  }

  Result<ast::Statement> ParseSet() {
    KV8_ASSIGN_OR_RETURN(ast::Target target, ParseTargets("="));
    if (SkipOperator("=")) {
      KV8_ASSIGN_OR_RETURN(auto value, ParseTuple());
      KV8_RETURN_IF_ERROR(Expect(Type::kBlockEnd));
      return ast::Statement{.node = ast::Set{std::move(target), std::move(value)}};
    }
    ast::SetBlock node{std::move(target), nullptr, {}};
    if (SkipOperator("|")) {
      KV8_ASSIGN_OR_RETURN(node.filter, ParseFilters(nullptr));
    }
    KV8_ASSIGN_OR_RETURN(node.body, ParseWholeBody("endset"));
    return ast::Statement{.node = std::move(node)};
  }

  Result<ast::Statement> ParseMacro() {
    ast::MacroDefinition macro;
    KV8_ASSIGN_OR_RETURN(macro.name, ExpectTargetName());
    KV8_RETURN_IF_ERROR(ParseSignature(macro.signature));
    KV8_RETURN_IF_ERROR(ParseMacroBody(macro, "endmacro"));
    return ast::Statement{.node = std::make_shared<const ast::MacroDefinition>(std::move(macro))};
  }

  Result<ast::Statement> ParseCallBlock() {
    ast::MacroDefinition caller;
    caller.name = "caller";
    if (current().IsOperator("(")) KV8_RETURN_IF_ERROR(ParseSignature(caller.signature));
    KV8_ASSIGN_OR_RETURN(auto call, ParseExpression());
    if (!std::holds_alternative<ast::Call>(call->node)) return Bad("a call block needs a call");
    KV8_RETURN_IF_ERROR(ParseMacroBody(caller, "endcall"));
    return ast::Statement{
        .node = ast::CallBlock{std::move(call),
                               std::make_shared<const ast::MacroDefinition>(std::move(caller))}};
  }

  Result<void> ParseSignature(ast::Signature& signature) {
    KV8_RETURN_IF_ERROR(ExpectOperator("("));
    while (!current().IsOperator(")")) {
      KV8_ASSIGN_OR_RETURN(std::string name, ExpectTargetName());
      signature.parameters.push_back(std::move(name));
      if (SkipOperator("=")) {
        KV8_ASSIGN_OR_RETURN(auto value, ParseExpression());
        signature.defaults.push_back(std::move(value));
      } else if (!signature.defaults.empty()) {
        return Bad("a parameter without a default follows one with a default");
      }
      if (!SkipOperator(",")) break;
    }
    return ExpectOperator(")");
  }

  /// The body, and what it uses: that decides which arguments the macro takes.
  Result<void> ParseMacroBody(ast::MacroDefinition& macro, std::string_view end) {
    const std::array outer = {uses_caller_, uses_varargs_, uses_kwargs_};
    const int outer_loops = std::exchange(loops_, 0);
    uses_caller_ = uses_varargs_ = uses_kwargs_ = false;
    auto body = ParseWholeBody(end);
    macro.uses_caller = uses_caller_;
    macro.uses_varargs = uses_varargs_;
    macro.uses_kwargs = uses_kwargs_;
    loops_ = outer_loops;
    uses_caller_ = uses_caller_ || outer[0];
    uses_varargs_ = uses_varargs_ || outer[1];
    uses_kwargs_ = uses_kwargs_ || outer[2];
    if (!body.ok()) return std::move(body).error();
    macro.body = std::move(*body);
    return {};
  }

  Result<ast::Statement> ParseFilterBlock() {
    ast::FilterBlock node;
    KV8_ASSIGN_OR_RETURN(node.filter, ParseFilters(nullptr));
    KV8_ASSIGN_OR_RETURN(node.body, ParseWholeBody("endfilter"));
    return ast::Statement{.node = std::move(node)};
  }

  Result<ast::Statement> ParseWith() {
    ast::With node;
    while (current().type != Type::kBlockEnd) {
      KV8_ASSIGN_OR_RETURN(ast::Target target, ParseTarget());
      KV8_RETURN_IF_ERROR(ExpectOperator("="));
      KV8_ASSIGN_OR_RETURN(auto value, ParseExpression());
      node.variables.emplace_back(std::move(target), std::move(value));
      if (!SkipOperator(",")) break;
    }
    KV8_ASSIGN_OR_RETURN(node.body, ParseWholeBody("endwith"));
    return ast::Statement{.node = std::move(node)};
  }

  Result<ast::Statement> ParseGeneration() {
    ast::Generation node;
    KV8_ASSIGN_OR_RETURN(node.body, ParseWholeBody("endgeneration"));
    return ast::Statement{.node = std::move(node)};
  }

  Result<ast::Statement> ParsePrint() {
    KV8_ASSIGN_OR_RETURN(auto value, ParseExpression());
    KV8_RETURN_IF_ERROR(Expect(Type::kBlockEnd));
    return ast::Statement{.node = ast::Output{std::move(value)}};
  }

  Result<ast::Statement> ParseBreak() { return ParseJump(ast::Break{}); }
  Result<ast::Statement> ParseContinue() { return ParseJump(ast::Continue{}); }

  template <class Jump>
  Result<ast::Statement> ParseJump(Jump jump) {
    if (loops_ == 0) return Bad("break or continue outside of a loop");
    KV8_RETURN_IF_ERROR(Expect(Type::kBlockEnd));
    return ast::Statement{.node = jump};
  }

  Result<std::string> ExpectTargetName() {
    static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                                   "True", "False", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), current().text) != kConstants.end()) {
      return Bad(fmt::format("cannot assign to '{}'", current().text));
    }
    return ExpectName();
  }

  Result<ast::Target> ParseTarget() {
    const Nesting nesting(nesting_);
    if (nesting.too_deep()) return TooDeep();
    if (SkipOperator("(")) {
      KV8_ASSIGN_OR_RETURN(ast::Target target, ParseTargets(")"));
      KV8_RETURN_IF_ERROR(ExpectOperator(")"));
      return target;
    }
    ast::Target target;
    KV8_ASSIGN_OR_RETURN(target.name, ExpectTargetName());
    if (SkipOperator(".")) {
      KV8_ASSIGN_OR_RETURN(target.attribute, ExpectName());
    }
    return target;
  }

  /// One target, or several separated by commas, up to `end`.
  Result<ast::Target> ParseTargets(std::string_view end) {
    KV8_ASSIGN_OR_RETURN(ast::Target first, ParseTarget());
    if (!current().IsOperator(",")) return first;
    ast::Target all;
    all.unpack.push_back(std::move(first));
    while (SkipOperator(",")) {
      if (current().text == end) break;
      KV8_ASSIGN_OR_RETURN(ast::Target next, ParseTarget());
      all.unpack.push_back(std::move(next));
    }
    return all;
  }

  int loops_ = 0;  // around the statement at hand, in its macro
};

}  // namespace

Result<ast::Block> ParseTemplate(std::string_view source, std::string_view template_name) {
  KV8_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source, template_name));
  return TemplateParser(std::move(tokens), template_name).Parse();
}

}  // namespace kv8::jinja
