#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jinja/interpreter.h"
#include "jinja/macro.h"

namespace kv8::jinja {
namespace {

/// Where a parameter stands; the number of parameters for a name that is none.
std::size_t PlaceOf(const ast::MacroDefinition& macro, std::string_view name) {
  const auto& names = macro.signature.parameters;
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

}  // namespace

std::optional<Value> Macro::Attribute(std::string_view name) const {
  if (name == "name") return Value(definition_->name);
  return std::nullopt;
}

Result<Value> Macro::Call(Runtime& /*runtime*/, const Arguments& arguments) {
  return interpreter_.CallMacro(*definition_, closure_, arguments);
}

Result<Value> Interpreter::CallMacro(const ast::MacroDefinition& macro,
                                     const std::shared_ptr<Scope>& closure,
                                     const Arguments& arguments) {
  const std::shared_ptr<Scope> around = std::exchange(scope_, std::make_shared<Scope>(closure));
  auto text = Capture([&]() -> Done {
    KV8_RETURN_IF_ERROR(BindMacro(macro, arguments));
    return Execute(macro.body);
  });
  scope_ = around;
  if (!text.ok()) return std::move(text).error();
  return Value(std::move(*text));
}

Result<void> Interpreter::BindMacro(const ast::MacroDefinition& macro, const Arguments& arguments) {
  const std::vector<std::string>& names = macro.signature.parameters;
  const std::size_t without_default = names.size() - macro.signature.defaults.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i < arguments.positional.size()) {
      scope_->Set(names[i], arguments.positional[i]);
    } else if (const Value* given = arguments.Keyword(names[i])) {
      scope_->Set(names[i], *given);
    } else if (i >= without_default) {
      KV8_ASSIGN_OR_RETURN(Value value, Evaluate(*macro.signature.defaults[i - without_default]));
      scope_->Set(names[i], std::move(value));
    } else {
      scope_->Set(names[i],
                  Value::Undefined(fmt::format("parameter '{}' was not provided", names[i])));
    }
  }
  return BindExtras(macro, arguments);
}

Result<void> Interpreter::BindExtras(const ast::MacroDefinition& macro,
                                     const Arguments& arguments) {
  const std::size_t parameters = macro.signature.parameters.size();
  const std::size_t placed = std::min(arguments.positional.size(), parameters);
  const bool wants_caller = macro.uses_caller && PlaceOf(macro, "caller") == parameters;
  if (wants_caller) {
    const Value* caller = arguments.Keyword("caller");
    scope_->Set("caller", caller != nullptr ? *caller : Value::Undefined("No caller defined"));
  }
  Dict kwargs;
  for (const auto& [name, value] : arguments.keyword) {
    const std::size_t place = PlaceOf(macro, name);
    if ((place >= placed && place < parameters) || (wants_caller && name == "caller")) continue;
    if (!macro.uses_kwargs) {
      return Failure(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
    }
    KV8_RETURN_IF_ERROR(kwargs.Set(Value(name), value));
  }
  if (macro.uses_kwargs) {
    KV8_ASSIGN_OR_RETURN(Value value, MakeDict(std::move(kwargs)));
    scope_->Set("kwargs", std::move(value));
  }
  std::vector<Value> more(arguments.positional.begin() + static_cast<std::ptrdiff_t>(placed),
                          arguments.positional.end());
  if (macro.uses_varargs) {
    KV8_ASSIGN_OR_RETURN(Value value, MakeTuple(std::move(more)));
    scope_->Set("varargs", std::move(value));
  } else if (!more.empty()) {
    return Failure(
        fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, parameters));
  }
  return {};
}

}  // namespace kv8::jinja
