#include "server/openai/output_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "server/openai/call_constraint.h"

namespace kv8::openai {
namespace {

using Mode = ToolChoice::Mode;

/// `text` as an expression that matches it.
std::string EscapePattern(std::string_view text) {
  constexpr std::string_view kSpecial = R"(\^$.|?*+()[]{}/)";
  std::string pattern;
  for (const char c : text) {
    if (kSpecial.find(c) != kSpecial.npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// What compiles a form from its field of the body.
struct FormCompiler {
  Constraints& constraints;

  Result<ConstraintPtr> operator()(std::monostate) const { return ConstraintPtr(); }
  Result<ConstraintPtr> operator()(const JsonObjectForm&) const {
    return constraints.OfJsonObject();
  }
  Result<ConstraintPtr> operator()(const JsonSchemaForm& form) const {
    return constraints.OfJsonSchema(OrderedText(form.schema));
  }
  Result<ConstraintPtr> operator()(const RegexForm& form) const {
    return constraints.OfRegex(form.pattern);
  }
  Result<ConstraintPtr> operator()(const ChoiceForm& form) const {
    std::string pattern;
    for (const std::string& text : form.texts) {
      if (!pattern.empty()) pattern += '|';
      pattern += EscapePattern(text);
    }
    return constraints.OfRegex(pattern);
  }
};

/// What the client asked for is at fault, whatever the compiler calls it.
Error AboutField(Error error, const char* field) {
  if (error.code != Code::kUnsupported) error.code = Code::kInvalidArgument;
  error.what = fmt::format("{}: {}", error.where, error.what);
  error.where = field;
  return error;
}

bool IsStrict(const OrderedJson& tool) {
  return tool["function"].value("strict", OrderedJson()) == true;
}

/// The calls of the answer: demanded, beside `form`, or wherever the model makes one.
Result<ConstraintPtr> ConstrainCalls(const ApiContext& context, const ToolChoice& choice,
                                     const OrderedJson& tools, const ConstraintPtr& form) {
  using Start = CallConstraint::Start;
  const auto open = context.tokenizer.IdOf("<tool_call>");
  const auto close = context.tokenizer.IdOf("</tool_call>");
  if (!open || !close) {
    return Error{Code::kUnsupported,
                 "calls cannot be constrained for a model that has no token \"<tool_call>\"",
                 "tool_choice", "use \"auto\", without \"strict\""};
  }
  const bool decides = choice.mode == Mode::kAuto && !form;
  auto call = context.constraints->OfCalls(tools, choice.name,
                                           decides ? CallSchemas::kStrict : CallSchemas::kAll);
  if (!call.ok()) return AboutField(std::move(call).error(), "tools");
  const CallConstraint::Form call_form{
      .open = *open,
      .close = *close,
      .vocab = static_cast<std::int64_t>(context.tokenizer.vocab_size()),
      .start = decides ? Start::kAnything
               : form  ? Start::kCallOrForm
                       : Start::kCall,
      .only_call = !choice.parallel};
  return ConstraintPtr(std::make_shared<CallConstraint>(call_form, *std::move(call),
                                                        form ? form->Clone() : nullptr));
}

}  // namespace

Result<ConstraintPtr> ConstrainForm(const ApiContext& context, const OutputForm& form) {
  auto made = std::visit(FormCompiler{*context.constraints}, form);
  if (!made.ok()) return AboutField(std::move(made).error(), "response_format");
  return made;
}

bool ConstrainsCalls(const OutputForm& form, const ToolChoice& choice, const OrderedJson& tools) {
  if (choice.mode == Mode::kNone) return false;
  const bool has_form = !std::holds_alternative<std::monostate>(form);
  return choice.mode != Mode::kAuto || has_form ||
         std::any_of(tools.begin(), tools.end(), IsStrict);
}

Result<ConstraintPtr> ConstrainAnswer(const ApiContext& context, const OutputForm& form,
                                      const ToolChoice& choice, const OrderedJson& tools,
                                      bool reasoning_open) {
  KV8_ASSIGN_OR_RETURN(ConstraintPtr constraint, ConstrainForm(context, form));
  if (ConstrainsCalls(form, choice, tools)) {
    if (choice.mode != Mode::kAuto) constraint = nullptr;
    KV8_ASSIGN_OR_RETURN(constraint, ConstrainCalls(context, choice, tools, constraint));
  }
  if (!constraint || !reasoning_open) return constraint;
  const auto end_of_reasoning = context.tokenizer.IdOf("</think>");
  return end_of_reasoning ? context.constraints->After(*end_of_reasoning, constraint) : constraint;
}

}  // namespace kv8::openai
