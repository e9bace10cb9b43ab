#include <fmt/format.h>

#include <utility>

#include "jinja/indexing.h"
#include "jinja/interpreter.h"
#include "jinja/natives.h"
#include "jinja/python_repr.h"

namespace kv8::jinja {

Error Interpreter::At(Error error, int line) const {
  if (error.where.empty()) error.where = fmt::format("{}:{}", name_, line);
  return error;
}

Error Interpreter::TooDeep() const {
  return Error{Code::kResourceExhausted,
               fmt::format("the template goes deeper than {} levels", runtime_.limits().depth), "",
               "look for a macro that calls itself without end"};
}

Result<Value> Interpreter::Evaluate(const ast::Expression& expression) {
  if (depth_ >= runtime_.limits().depth) return At(TooDeep(), expression.line);
  if (auto charged = runtime_.Charge(1); !charged.ok()) return At(charged.error(), expression.line);
  ++depth_;
  auto value = std::visit([this](const auto& node) { return Eval(node); }, expression.node);
  --depth_;
  if (!value.ok()) return At(std::move(value).error(), expression.line);
  return value;
}

Result<Value> Interpreter::Eval(const ast::Literal& node) {
  return node.value;
}

Result<Value> Interpreter::Eval(const ast::Name& node) {
  if (const Value* value = scope_->Find(node.name)) return *value;
  if (const Native* global = FindGlobal(node.name)) return NativeFunction(*global);
  return Value::Undefined(fmt::format("'{}' is undefined", node.name));
}

Result<std::vector<Value>> Interpreter::EvaluateAll(const ast::Expressions& expressions) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const auto& expression : expressions) {
    KV8_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Interpreter::EvaluateOptional(const ast::ExpressionPtr& expression) {
  return expression == nullptr ? Value() : Evaluate(*expression);
}

Result<Value> Interpreter::Eval(const ast::ListLiteral& node) {
  KV8_ASSIGN_OR_RETURN(auto items, EvaluateAll(node.items));
  return MakeList(std::move(items));
}

Result<Value> Interpreter::Eval(const ast::TupleLiteral& node) {
  KV8_ASSIGN_OR_RETURN(auto items, EvaluateAll(node.items));
  return MakeTuple(std::move(items));
}

Result<Value> Interpreter::Eval(const ast::DictLiteral& node) {
  Dict dict;
  for (const auto& [key_node, value_node] : node.entries) {
    KV8_ASSIGN_OR_RETURN(Value key, Evaluate(*key_node));
    KV8_ASSIGN_OR_RETURN(Value value, Evaluate(*value_node));
    KV8_RETURN_IF_ERROR(dict.Set(std::move(key), std::move(value)));
  }
  return MakeDict(std::move(dict));
}

Result<Value> Interpreter::Eval(const ast::Not& node) {
  KV8_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operand));
  return Value(!value.Truthy());
}

Result<Value> Interpreter::Eval(const ast::Sign& node) {
  KV8_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operand));
  if (node.negative) return Negate(value);
  if (const auto number = value.AsInt()) return Value(*number);
  if (value.Is(Kind::kFloat)) return value;
  if (value.Is(Kind::kUndefined)) return UndefinedError(value);
  return Failure(fmt::format("bad operand type for unary +: '{}'", value.TypeName()));
}

Result<Value> Interpreter::Eval(const ast::Binary& node) {
  KV8_ASSIGN_OR_RETURN(const Value left, Evaluate(*node.left));
  KV8_ASSIGN_OR_RETURN(const Value right, Evaluate(*node.right));
  return runtime_.Operate(node.op, left, right);
}

Result<Value> Interpreter::Eval(const ast::Logic& node) {
  KV8_ASSIGN_OR_RETURN(Value left, Evaluate(*node.left));
  if (left.Truthy() != node.is_and) return left;
  return Evaluate(*node.right);
}

Result<Value> Interpreter::Eval(const ast::Comparison& node) {
  KV8_ASSIGN_OR_RETURN(Value left, Evaluate(*node.first));
  Value result(true);
  for (const auto& [op, operand] : node.rest) {
    KV8_ASSIGN_OR_RETURN(Value right, Evaluate(*operand));
    KV8_ASSIGN_OR_RETURN(result, runtime_.Operate(op, left, right));
    if (!result.Truthy()) break;
    left = std::move(right);
  }
  return result;
}

Result<Value> Interpreter::Eval(const ast::Concatenation& node) {
  MarkedText out;
  for (const auto& part : node.parts) {
    KV8_ASSIGN_OR_RETURN(const Value value, Evaluate(*part));
    AppendStr(value, out);
    if (out.size() > kMaxStringBytes) return StringTooLong();
  }
  KV8_RETURN_IF_ERROR(runtime_.Charge(out.size() / kBytesPerWeight));
  return Value(std::move(out));
}

Result<Value> Interpreter::Eval(const ast::Conditional& node) {
  KV8_ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.condition));
  if (condition.Truthy()) return Evaluate(*node.then);
  if (node.otherwise != nullptr) return Evaluate(*node.otherwise);
  return Value::Undefined("the inline if-expression evaluated to false and has no else");
}

Result<Value> Interpreter::Eval(const ast::Attribute& node) {
  KV8_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  return runtime_.GetAttribute(object, node.name);
}

Result<Value> Interpreter::Eval(const ast::Item& node) {
  KV8_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  KV8_ASSIGN_OR_RETURN(const Value key, Evaluate(*node.key));
  return runtime_.GetItem(object, key);
}

Result<Value> Interpreter::Eval(const ast::SliceOf& node) {
  KV8_ASSIGN_OR_RETURN(const Value object, Evaluate(*node.object));
  SliceBounds bounds;
  KV8_ASSIGN_OR_RETURN(bounds.start, EvaluateOptional(node.start));
  KV8_ASSIGN_OR_RETURN(bounds.stop, EvaluateOptional(node.stop));
  KV8_ASSIGN_OR_RETURN(bounds.step, EvaluateOptional(node.step));
  if (object.Is(Kind::kUndefined)) return UndefinedError(object);
  KV8_ASSIGN_OR_RETURN(auto slice, Slice(object, bounds));
  if (!slice) return Failure(fmt::format("a '{}' has no such slice", object.TypeName()));
  KV8_RETURN_IF_ERROR(runtime_.Charge(slice->Is(Kind::kString)
                                          ? slice->text().size() / kBytesPerWeight
                                          : slice->sequence().items.size()));
  return std::move(*slice);
}

Result<void> Interpreter::AddArguments(const ast::CallArguments& node, Arguments& arguments) {
  for (const auto& expression : node.positional) {
    KV8_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    arguments.positional.push_back(std::move(value));
  }
  if (node.all_positional != nullptr) {
    KV8_ASSIGN_OR_RETURN(const Value all, Evaluate(*node.all_positional));
    KV8_ASSIGN_OR_RETURN(const auto items, runtime_.Items(all));
    arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
  }
  for (const auto& [name, expression] : node.keyword) {
    KV8_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    arguments.keyword.emplace_back(name, std::move(value));
  }
  if (node.all_keyword == nullptr) return {};
  KV8_ASSIGN_OR_RETURN(const Value all, Evaluate(*node.all_keyword));
  if (!all.Is(Kind::kDict)) return Failure("** needs a mapping");
  KV8_RETURN_IF_ERROR(runtime_.Charge(all.dict().entries().size()));
  for (const auto& [key, value] : all.dict().entries()) {
    if (!key.Is(Kind::kString)) return Failure("keywords must be strings");
    arguments.keyword.emplace_back(key.text(), value);
  }
  return {};
}

Result<Value> Interpreter::Eval(const ast::Call& node) {
  return CallWith(node, nullptr);
}

Result<Value> Interpreter::CallWith(const ast::Call& node, const Value* caller) {
  Arguments arguments;
  const Native* method = nullptr;
  Value callee;
  if (const auto* attribute = std::get_if<ast::Attribute>(&node.callee->node)) {
    // A method called where it is named needs no value of its own.
    KV8_ASSIGN_OR_RETURN(Value object, Evaluate(*attribute->object));
    method = FindMethod(object, attribute->name);
    if (method != nullptr) {
      arguments.positional.push_back(std::move(object));
    } else {
      KV8_ASSIGN_OR_RETURN(callee, runtime_.GetAttribute(object, attribute->name));
    }
  } else {
    KV8_ASSIGN_OR_RETURN(callee, Evaluate(*node.callee));
  }
  KV8_RETURN_IF_ERROR(AddArguments(node.arguments, arguments));
  if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
  return method != nullptr ? method->Call(runtime_, arguments) : runtime_.Call(callee, arguments);
}

Result<Value> Interpreter::ApplyFilter(const ast::Filter& node, Value subject) {
  Arguments arguments;
  arguments.positional.push_back(std::move(subject));
  KV8_RETURN_IF_ERROR(AddArguments(node.arguments, arguments));
  return runtime_.ApplyFilter(node.name, arguments);
}

Result<Value> Interpreter::Eval(const ast::Filter& node) {
  KV8_ASSIGN_OR_RETURN(Value subject, Evaluate(*node.subject));
  return ApplyFilter(node, std::move(subject));
}

Result<Value> Interpreter::ApplyFilterChain(const ast::Expression& chain, Value subject) {
  const auto& filter = std::get<ast::Filter>(chain.node);
  if (filter.subject != nullptr) {
    KV8_ASSIGN_OR_RETURN(subject, ApplyFilterChain(*filter.subject, std::move(subject)));
  }
  auto value = ApplyFilter(filter, std::move(subject));
  if (!value.ok()) return At(std::move(value).error(), chain.line);
  return value;
}

Result<Value> Interpreter::Eval(const ast::Test& node) {
  Arguments arguments;
  KV8_ASSIGN_OR_RETURN(Value subject, Evaluate(*node.subject));
  arguments.positional.push_back(std::move(subject));
  KV8_RETURN_IF_ERROR(AddArguments(node.arguments, arguments));
  KV8_ASSIGN_OR_RETURN(const bool passes, runtime_.ApplyTest(node.name, arguments));
  return Value(passes);
}

}  // namespace kv8::jinja
