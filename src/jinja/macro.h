// A macro as a value.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "jinja/ast.h"
#include "jinja/interpreter.h"

namespace kv8::jinja {

/// A definition, and the scope in which it stands: that is where its free names are looked up.
class Macro : public Object {
 public:
  Macro(Interpreter& interpreter, std::shared_ptr<const ast::MacroDefinition> definition,
        std::shared_ptr<Scope> closure)
      : interpreter_(interpreter),
        definition_(std::move(definition)),
        closure_(std::move(closure)) {}

  std::string_view type_name() const override { return "Macro"; }
  std::optional<Value> Attribute(std::string_view name) const override;
  bool callable() const override { return true; }
  Result<Value> Call(Runtime& runtime, const Arguments& arguments) override;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<const ast::MacroDefinition> definition_;
  std::shared_ptr<Scope> closure_;
};

}  // namespace kv8::jinja
