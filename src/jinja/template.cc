#include "jinja/template.h"

#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace kv8::jinja {

Result<Template> Template::Parse(std::string_view source, std::string_view name) {
  KV8_ASSIGN_OR_RETURN(ast::Block body, ParseTemplate(source, name));
  return Template(std::move(body), name);
}

Result<MarkedText> Template::Render(const Variables& variables, const Limits& limits) const {
  const MemoryAccount memory;
  Interpreter interpreter(body_, name_, limits);
  for (const auto& [name, value] : variables) interpreter.SetVariable(name, value);
  return interpreter.Run();
}

}  // namespace kv8::jinja
