// Runs a template: statements write text, expressions have values.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace kv8::jinja {

/// Variables by name; what is not here may be in the scope around it.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> around) : outer(std::move(around)) {}

  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);

  std::map<std::string, Value, std::less<>> variables;
  std::shared_ptr<Scope> outer;
};

/// One rendering of one template.
class Interpreter {
 public:
  /// `name` stands for the template in errors. All three must outlive the interpreter.
  Interpreter(const ast::Block& body, std::string_view name, const Limits& limits);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;

  void SetVariable(std::string_view name, Value value) { scope_->Set(name, std::move(value)); }
  /// The text. Call once. Errors carry "template:line" in `where`.
  Result<MarkedText> Run();

 private:
  friend class Macro;
  using Evaluated = Result<Value>;
  /// How the statement after this one is found.
  enum class Flow { kNext, kBreak, kContinue };
  using Done = Result<Flow>;

  // interpreter.cc
  Done Execute(const ast::Block& block);
  Done Execute(const ast::Statement& statement);
  Done Run(const ast::Text& node);
  Done Run(const ast::Output& node);
  Done Run(const ast::If& node);
  Done Run(const ast::For& node);
  Done Run(const ast::Set& node);
  Done Run(const ast::SetBlock& node);
  Done Run(const ast::With& node);
  Done Run(const std::shared_ptr<const ast::MacroDefinition>& node);
  Done Run(const ast::CallBlock& node);
  Done Run(const ast::FilterBlock& node);
  Done Run(const ast::Generation& node);
  Done Run(const ast::Break& node);
  Done Run(const ast::Continue& node);
  Done RunInScope(const ast::Block& block, std::shared_ptr<Scope> scope);
  Done RunLoop(const ast::For& node, const Value& items, int depth, std::shared_ptr<Scope> outer);
  Result<std::vector<Value>> LoopItems(const ast::For& node, const Value& items,
                                       const std::shared_ptr<Scope>& outer);
  Result<void> Assign(const ast::Target& target, const Value& value);
  Result<void> Write(const MarkedText& text);
  /// The text that `body` writes.
  template <class Body>
  Result<MarkedText> Capture(Body&& body);
  Value DefineMacro(std::shared_ptr<const ast::MacroDefinition> definition);

  // interpreter_macros.cc
  Evaluated CallMacro(const ast::MacroDefinition& macro, const std::shared_ptr<Scope>& closure,
                      const Arguments& arguments);
  Result<void> BindMacro(const ast::MacroDefinition& macro, const Arguments& arguments);
  /// What no parameter takes: `caller`, `varargs` and `kwargs`.
  Result<void> BindExtras(const ast::MacroDefinition& macro, const Arguments& arguments);

  // interpreter_expressions.cc
  Evaluated Evaluate(const ast::Expression& expression);
  Evaluated Eval(const ast::Literal& node);
  Evaluated Eval(const ast::Name& node);
  Evaluated Eval(const ast::ListLiteral& node);
  Evaluated Eval(const ast::TupleLiteral& node);
  Evaluated Eval(const ast::DictLiteral& node);
  Evaluated Eval(const ast::Not& node);
  Evaluated Eval(const ast::Sign& node);
  Evaluated Eval(const ast::Binary& node);
  Evaluated Eval(const ast::Logic& node);
  Evaluated Eval(const ast::Comparison& node);
  Evaluated Eval(const ast::Concatenation& node);
  Evaluated Eval(const ast::Conditional& node);
  Evaluated Eval(const ast::Attribute& node);
  Evaluated Eval(const ast::Item& node);
  Evaluated Eval(const ast::SliceOf& node);
  Evaluated Eval(const ast::Call& node);
  Evaluated Eval(const ast::Filter& node);
  Evaluated Eval(const ast::Test& node);
  Result<std::vector<Value>> EvaluateAll(const ast::Expressions& expressions);
  Evaluated EvaluateOptional(const ast::ExpressionPtr& expression);
  Result<void> AddArguments(const ast::CallArguments& node, Arguments& arguments);
  Evaluated CallWith(const ast::Call& node, const Value* caller);
  Evaluated ApplyFilter(const ast::Filter& node, Value subject);
  /// A chain of filters whose innermost has no subject of its own.
  Evaluated ApplyFilterChain(const ast::Expression& chain, Value subject);

  Error At(Error error, int line) const;
  Error TooDeep() const;

  const ast::Block& body_;
  std::string_view name_;
  Runtime runtime_;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> captured_;  // by macros; emptied at the end
  MarkedText text_;
  MarkedText* out_ = &text_;
  int depth_ = 0;
};

template <class Body>
Result<MarkedText> Interpreter::Capture(Body&& body) {
  MarkedText text;
  MarkedText* outer = std::exchange(out_, &text);
  const Done done = body();
  out_ = outer;
  if (!done.ok()) return done.error();
  return text;
}

}  // namespace kv8::jinja
