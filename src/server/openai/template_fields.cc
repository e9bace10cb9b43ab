#include "server/openai/template_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kv8::openai {
namespace {

constexpr const char* kThinking = "enable_thinking";
constexpr const char* kEffort = "reasoning_effort";
constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};

/// Fields of the request itself.
constexpr std::array kTaken = {"messages", "tools", "add_generation_prompt",
                               "continue_final_message"};

Result<void> ReadVariables(const RequestFields& body, TemplateFields& to) {
  KV8_ASSIGN_OR_RETURN(const auto variables, body.Object("chat_template_kwargs"));
  if (!variables) return {};
  for (const char* taken : kTaken) {
    if (variables->Find(taken) != nullptr) {
      return variables->Bad(taken, "is a field of the request itself", "set that");
    }
  }
  for (const auto& [name, value] : variables->json().items()) {
    if (!value.is_null()) to.variables.push_back({name, value, variables->PathOf(name)});
  }
  return {};
}

Result<void> ReadThinking(const RequestFields& body, TemplateFields& to) {
  if (body.Find(kThinking) == nullptr) return {};
  KV8_ASSIGN_OR_RETURN(const bool thinking, body.Bool(kThinking, false));
  to.variables.push_back({kThinking, thinking, kThinking});
  return {};
}

Result<void> ReadEnding(const RequestFields& body, TemplateFields& to) {
  KV8_ASSIGN_OR_RETURN(to.continue_final_message, body.Bool("continue_final_message", false));
  KV8_ASSIGN_OR_RETURN(to.add_generation_prompt,
                       body.Bool("add_generation_prompt", !to.continue_final_message));
  if (to.continue_final_message && to.add_generation_prompt) {
    return body.Bad("continue_final_message", "contradicts \"add_generation_prompt\"",
                    "leave one out");
  }
  return {};
}

/// Sets a variable; what two fields say of it must be the same.
Result<void> Set(OrderedJson& variables, const TemplateFields::Variable& variable) {
  const auto [place, is_new] = variables.emplace(variable.name, OrderedJson(variable.value));
  if (is_new || place.value() == variable.value) return {};
  return BadField(variable.field,
                  fmt::format("contradicts another field about \"{}\"", variable.name),
                  "leave one out");
}

Result<void> SetEffort(const ChatTemplate& chat_template, const TemplateFields& fields,
                       OrderedJson& variables) {
  const std::string& effort = fields.reasoning_effort;
  if (effort.empty()) return {};
  const bool has_effort = chat_template.Mentions(kEffort);
  const bool has_switch = chat_template.Mentions(kThinking);
  if (!has_effort && !has_switch) {
    return BadField(fields.effort_field, "is not possible: the chat template has no such variable",
                    "leave it out");
  }
  if (has_effort) KV8_RETURN_IF_ERROR(Set(variables, {kEffort, effort, fields.effort_field}));
  if (!has_switch) return {};
  return Set(variables, {kThinking, effort != "none", fields.effort_field});
}

}  // namespace

Result<void> ReadEffort(const RequestFields& fields, std::string_view key, TemplateFields& to) {
  KV8_ASSIGN_OR_RETURN(const auto effort, fields.String(key));
  if (!effort) return {};
  if (std::find(kEfforts.begin(), kEfforts.end(), *effort) == kEfforts.end()) {
    return fields.Bad(
        key, fmt::format("is \"{}\"; it must be one of {}", *effort, fmt::join(kEfforts, ", ")));
  }
  to.reasoning_effort = *effort;
  to.effort_field = fields.PathOf(key);
  return {};
}

Result<TemplateFields> ReadTemplateFields(const RequestFields& body) {
  TemplateFields fields;
  KV8_RETURN_IF_ERROR(ReadVariables(body, fields));
  KV8_RETURN_IF_ERROR(ReadThinking(body, fields));
  KV8_RETURN_IF_ERROR(ReadEffort(body, kEffort, fields));
  KV8_RETURN_IF_ERROR(ReadEnding(body, fields));
  return fields;
}

Result<OrderedJson> VariablesFor(const ChatTemplate& chat_template, const TemplateFields& fields) {
  OrderedJson variables = OrderedJson::object();
  for (const TemplateFields::Variable& variable : fields.variables) {
    if (!chat_template.Mentions(variable.name)) {
      return BadField(variable.field, "is not possible: the chat template has no such variable",
                      "leave it out");
    }
    KV8_RETURN_IF_ERROR(Set(variables, variable));
  }
  KV8_RETURN_IF_ERROR(SetEffort(chat_template, fields, variables));
  return variables;
}

}  // namespace kv8::openai
