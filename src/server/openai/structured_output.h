// The form that a request demands of its output.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/ordered_json.h"
#include "server/openai/request_fields.h"

namespace kv8::openai {

/// Any JSON object.
struct JsonObjectForm {};
/// JSON that a schema admits.
struct JsonSchemaForm {
  OrderedJson schema;
};
/// Text that a regular expression matches as a whole.
struct RegexForm {
  std::string pattern;
};
/// One of these texts.
struct ChoiceForm {
  std::vector<std::string> texts;
};
using OutputForm =
    std::variant<std::monostate, JsonObjectForm, JsonSchemaForm, RegexForm, ChoiceForm>;

/// Reads "response_format" as OpenAI has it, vLLM's "guided_json", "guided_regex", "guided_choice"
/// and "structured_outputs", llama.cpp's "json_schema" and SGLang's "regex". Errors:
/// kInvalidArgument, also when more than one is given; kUnsupported.
Result<OutputForm> ReadOutputForm(const RequestFields& body);

/// {"type": "text" | "json_object" | "json_schema", ...}; a "json_object" with a "schema" of its
/// own is llama.cpp's way to say "json_schema". `schema_key` names the object that holds the
/// schema, empty when `format` itself does.
Result<OutputForm> ReadFormat(const RequestFields& format, std::string_view schema_key);

}  // namespace kv8::openai
