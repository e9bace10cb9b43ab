#include "server/openai/output_constraint.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "server/openai/call_constraint.h"
#include "server/openai/call_pattern.h"

namespace kv8::openai {
namespace {

using Mode = ToolChoice::Mode;

/// What compiles a form from its field of the body.
struct FormCompiler {
  Constraints& constraints;

  Result<ConstraintPtr> operator()(std::monostate) const { return ConstraintPtr(); }
  Result<ConstraintPtr> operator()(const JsonObjectForm&) const {
    return constraints.OfJsonObject();
  }
  Result<ConstraintPtr> operator()(const JsonSchemaForm& form) const {
    return constraints.OfJsonSchema(form.schema.dump());
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

/// A call at the start of the answer: demanded, or allowed beside `form`.
Result<ConstraintPtr> ConstrainCall(const ApiContext& context, const ToolChoice& choice,
                                    const OrderedJson& tools, const ConstraintPtr& form) {
  const auto open = context.tokenizer.IdOf("<tool_call>");
  const auto close = context.tokenizer.IdOf("</tool_call>");
  if (!open || !close) {
    return Error{Code::kUnsupported,
                 "calls cannot be demanded of a model that has no token \"<tool_call>\"",
                 "tool_choice", "use \"auto\""};
  }
  auto call = context.constraints->OfRegex(CallPattern(tools, choice.name));
  if (!call.ok()) return AboutField(std::move(call).error(), "tools");
  const CallConstraint::Form call_form{
      .open = *open,
      .close = *close,
      .vocab = static_cast<std::int64_t>(context.tokenizer.vocab_size()),
      .only_call = !choice.parallel};
  return ConstraintPtr(std::make_shared<CallConstraint>(call_form, (*call)->Clone(),
                                                        form ? form->Clone() : nullptr));
}

}  // namespace

Result<ConstraintPtr> ConstrainForm(const ApiContext& context, const OutputForm& form) {
  auto made = std::visit(FormCompiler{*context.constraints}, form);
  if (!made.ok()) return AboutField(std::move(made).error(), "response_format");
  return made;
}

Result<ConstraintPtr> ConstrainAnswer(const ApiContext& context, const OutputForm& form,
                                      const ToolChoice& choice, const OrderedJson& tools,
                                      bool reasoning_open) {
  KV8_ASSIGN_OR_RETURN(ConstraintPtr constraint, ConstrainForm(context, form));
  const bool demanded = choice.mode == Mode::kRequired || choice.mode == Mode::kNamed;
  if (demanded || (constraint && choice.mode == Mode::kAuto)) {
    KV8_ASSIGN_OR_RETURN(constraint,
                         ConstrainCall(context, choice, tools, demanded ? nullptr : constraint));
  }
  if (!constraint || !reasoning_open) return constraint;
  const auto end_of_reasoning = context.tokenizer.IdOf("</think>");
  return end_of_reasoning ? context.constraints->After(*end_of_reasoning, constraint) : constraint;
}

}  // namespace kv8::openai
