#include "jinja/interpreter.h"

#include <fmt/format.h>

#include <utility>

#include "jinja/macro.h"
#include "jinja/objects.h"
#include "jinja/python_repr.h"

namespace kv8::jinja {

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer.get()) {
    const auto it = scope->variables.find(name);
    if (it != scope->variables.end()) return &it->second;
  }
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  variables.insert_or_assign(std::string(name), std::move(value));
}

Interpreter::Interpreter(const ast::Block& body, std::string_view name, const Limits& limits)
    : body_(body), name_(name), runtime_(limits), scope_(std::make_shared<Scope>(nullptr)) {}

Interpreter::~Interpreter() {
  // A macro holds the scope that it is defined in, which holds the macro.
  for (const auto& scope : captured_) scope->variables.clear();
}

Result<MarkedText> Interpreter::Run() {
  const Done done = Execute(body_);
  if (!done.ok()) return done.error();
  return std::move(text_);
}

Result<Interpreter::Flow> Interpreter::Execute(const ast::Block& block) {
  for (const ast::Statement& statement : block) {
    KV8_ASSIGN_OR_RETURN(const Flow flow, Execute(statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const ast::Statement& statement) {
  if (depth_ >= runtime_.limits().depth) return At(TooDeep(), statement.line);
  if (auto charged = runtime_.Charge(1); !charged.ok()) return At(charged.error(), statement.line);
  ++depth_;
  Done done = std::visit([this](const auto& node) { return Run(node); }, statement.node);
  --depth_;
  if (!done.ok()) return At(std::move(done).error(), statement.line);
  return done;
}

Result<void> Interpreter::Write(const MarkedText& text) {
  if (out_->size() + text.size() > runtime_.limits().output_bytes) {
    return Error{
        Code::kResourceExhausted,
        fmt::format("the template writes more than {} bytes", runtime_.limits().output_bytes), "",
        "shorten the conversation"};
  }
  KV8_RETURN_IF_ERROR(runtime_.Charge(text.size() / kBytesPerWeight));
  out_->Append(text);
  return {};
}

Result<Interpreter::Flow> Interpreter::RunInScope(const ast::Block& block,
                                                  std::shared_ptr<Scope> scope) {
  std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(scope));
  Done done = Execute(block);
  scope_ = std::move(outer);
  return done;
}

Result<Interpreter::Flow> Interpreter::Run(const ast::Text& node) {
  KV8_RETURN_IF_ERROR(Write(MarkedText(node.text)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const ast::Output& node) {
  KV8_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
  KV8_RETURN_IF_ERROR(value.Is(Kind::kString) ? Write(value.marked()) : Write(MarkedStr(value)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const ast::If& node) {
  for (const auto& [condition, body] : node.branches) {
    KV8_ASSIGN_OR_RETURN(const Value value, Evaluate(*condition));
    if (value.Truthy()) return Execute(body);
  }
  return Execute(node.otherwise);
}

Result<Interpreter::Flow> Interpreter::Run(const ast::For& node) {
  KV8_ASSIGN_OR_RETURN(const Value items, Evaluate(*node.items));
  return RunLoop(node, items, 0, scope_);
}

Result<std::vector<Value>> Interpreter::LoopItems(const ast::For& node, const Value& items,
                                                  const std::shared_ptr<Scope>& outer) {
  KV8_ASSIGN_OR_RETURN(auto all, runtime_.Items(items));
  if (node.condition == nullptr) return all;
  std::vector<Value> kept;
  const std::shared_ptr<Scope> around = std::exchange(scope_, std::make_shared<Scope>(outer));
  auto status = [&]() -> Result<void> {
    for (Value& item : all) {
      KV8_RETURN_IF_ERROR(Assign(node.target, item));
      KV8_ASSIGN_OR_RETURN(const Value passes, Evaluate(*node.condition));
      if (passes.Truthy()) kept.push_back(std::move(item));
    }
    return {};
  }();
  scope_ = around;
  KV8_RETURN_IF_ERROR(status);
  return kept;
}

Result<Interpreter::Flow> Interpreter::RunLoop(const ast::For& node, const Value& items, int depth,
                                               std::shared_ptr<Scope> outer) {
  KV8_ASSIGN_OR_RETURN(auto kept, LoopItems(node, items, outer));
  if (kept.empty()) {
    KV8_RETURN_IF_ERROR(RunInScope(node.otherwise, std::make_shared<Scope>(outer)));
    return Flow::kNext;
  }
  Loop::Recurse recurse;
  if (node.recursive) {
    recurse = [this, &node, outer](const Value& inner, int inner_depth) -> Result<Value> {
      KV8_ASSIGN_OR_RETURN(MarkedText text,
                           Capture([&] { return RunLoop(node, inner, inner_depth, outer); }));
      return Value(std::move(text));
    };
  }
  const auto loop = std::make_shared<Loop>(std::move(kept), depth, std::move(recurse));
  Done done = Flow::kNext;
  for (std::size_t i = 0; i < loop->size() && done.ok() && *done != Flow::kBreak; ++i) {
    const auto scope = std::make_shared<Scope>(outer);
    scope->Set("loop", Value(std::shared_ptr<Object>(loop)));
    const std::shared_ptr<Scope> around = std::exchange(scope_, scope);
    const auto assigned = Assign(node.target, loop->Enter(i));
    done = assigned.ok() ? Execute(node.body) : Done(assigned.error());
    scope_ = around;
  }
  loop->End();
  if (!done.ok()) return done;
  return Flow::kNext;
}

Result<void> Interpreter::Assign(const ast::Target& target, const Value& value) {
  if (target.unpack.empty() && target.attribute.empty()) {
    scope_->Set(target.name, value);
    return {};
  }
  if (target.unpack.empty()) {
    const Value* object = scope_->Find(target.name);
    auto* space = object != nullptr && object->Is(Kind::kObject)
                      ? dynamic_cast<Namespace*>(object->object().get())
                      : nullptr;
    if (space == nullptr) return Failure("cannot assign attribute on non-namespace object");
    KV8_RETURN_IF_ERROR(runtime_.Charge(1));
    return space->Set(target.attribute, value);
  }
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  KV8_ASSIGN_OR_RETURN(const auto items, runtime_.Items(value));
  if (items.size() != target.unpack.size()) {
    return Failure(
        fmt::format("cannot unpack {} values into {} names", items.size(), target.unpack.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    KV8_RETURN_IF_ERROR(Assign(target.unpack[i], items[i]));
  }
  return {};
}

Result<Interpreter::Flow> Interpreter::Run(const ast::Set& node) {
  KV8_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.value));
  KV8_RETURN_IF_ERROR(Assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const ast::SetBlock& node) {
  KV8_ASSIGN_OR_RETURN(MarkedText text, Capture([&] {
                         return RunInScope(node.body, std::make_shared<Scope>(scope_));
                       }));
  Value value(std::move(text));
  if (node.filter != nullptr) {
    KV8_ASSIGN_OR_RETURN(value, ApplyFilterChain(*node.filter, std::move(value)));
  }
  KV8_RETURN_IF_ERROR(Assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const ast::With& node) {
  const auto scope = std::make_shared<Scope>(scope_);
  for (const auto& [target, expression] : node.variables) {
    KV8_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression));
    const std::shared_ptr<Scope> around = std::exchange(scope_, scope);
    const auto assigned = Assign(target, value);
    scope_ = around;
    KV8_RETURN_IF_ERROR(assigned);
  }
  return RunInScope(node.body, scope);
}

Value Interpreter::DefineMacro(std::shared_ptr<const ast::MacroDefinition> definition) {
  if (captured_.empty() || captured_.back() != scope_) captured_.push_back(scope_);
  return Value(
      std::shared_ptr<Object>(std::make_shared<Macro>(*this, std::move(definition), scope_)));
}

Result<Interpreter::Flow> Interpreter::Run(
    const std::shared_ptr<const ast::MacroDefinition>& node) {
  scope_->Set(node->name, DefineMacro(node));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const ast::CallBlock& node) {
  const Value caller = DefineMacro(node.caller);
  KV8_ASSIGN_OR_RETURN(const Value text, CallWith(std::get<ast::Call>(node.call->node), &caller));
  KV8_RETURN_IF_ERROR(Write(MarkedStr(text)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const ast::FilterBlock& node) {
  KV8_ASSIGN_OR_RETURN(MarkedText text, Capture([&] {
                         return RunInScope(node.body, std::make_shared<Scope>(scope_));
                       }));
  KV8_ASSIGN_OR_RETURN(const Value value, ApplyFilterChain(*node.filter, Value(std::move(text))));
  KV8_RETURN_IF_ERROR(Write(MarkedStr(value)));
  return Flow::kNext;
}

/// The tag marks what the model is to learn; it leaves the text as it is.
Result<Interpreter::Flow> Interpreter::Run(const ast::Generation& node) {
  return RunInScope(node.body, std::make_shared<Scope>(scope_));
}

Result<Interpreter::Flow> Interpreter::Run(const ast::Break&) {
  return Flow::kBreak;
}
Result<Interpreter::Flow> Interpreter::Run(const ast::Continue&) {
  return Flow::kContinue;
}

}  // namespace kv8::jinja
