// What a request says to the chat template.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ordered_json.h"
#include "server/openai/request_fields.h"
#include "text/chat_template.h"

namespace kv8::openai {

struct TemplateFields {
  struct Variable {
    std::string name;
    OrderedJson value;
    std::string field;  // its place in the body
  };
  std::vector<Variable> variables;  // of "chat_template_kwargs", and "enable_thinking"
  std::string reasoning_effort;     // empty: not given
  std::string effort_field;         // its place in the body
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

/// Reads "chat_template_kwargs", "enable_thinking", "reasoning_effort", "add_generation_prompt" and
/// "continue_final_message". Errors: kInvalidArgument with the field that is wrong, or that
/// contradicts another.
Result<TemplateFields> ReadTemplateFields(const RequestFields& body);

/// Reads "effort" of `fields` as "reasoning_effort", whose place is `key`.
Result<void> ReadEffort(const RequestFields& fields, std::string_view key, TemplateFields& to);

/// The variables as `chat_template` takes them. An effort becomes its variable of this name, and
/// "enable_thinking": false for "none", else true. Errors: kInvalidArgument about a field that the
/// template does not mention, and that would be dropped without a word.
Result<OrderedJson> VariablesFor(const ChatTemplate& chat_template, const TemplateFields& fields);

}  // namespace kv8::openai
