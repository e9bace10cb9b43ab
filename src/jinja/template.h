// A parsed template, ready to be rendered any number of times.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/runtime.h"

namespace kv8::jinja {

/// The Jinja of chat templates: jinja2 with trim_blocks, lstrip_blocks and loop controls, undefined
/// names printed as nothing, and lists and dicts that cannot be changed. Immutable.
class Template {
 public:
  using Variables = std::vector<std::pair<std::string, Value>>;

  /// `name` stands for the template in errors. Errors: kCorrupt with the line in `where`.
  static Result<Template> Parse(std::string_view source, std::string_view name);

  /// The text, with the authors that the variables had. Errors carry template and line:
  /// kInvalidArgument for what the template refuses or cannot do; kResourceExhausted and
  /// kUnsupported for limits.
  Result<MarkedText> Render(const Variables& variables, const Limits& limits = {}) const;

 private:
  Template(ast::Block body, std::string_view name) : body_(std::move(body)), name_(name) {}

  ast::Block body_;
  std::string name_;
};

}  // namespace kv8::jinja
