#include "server/openai/structured_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace kv8::openai {
namespace {

/// A schema is an object, a boolean, or, in vLLM's fields, the text of one.
Result<OutputForm> SchemaForm(const RequestFields& fields, std::string_view key) {
  const OrderedJson* schema = fields.Find(key);
  if (schema == nullptr) return fields.Bad(key, "is missing");
  if (schema->is_object() || schema->is_boolean()) return OutputForm(JsonSchemaForm{*schema});
  if (schema->is_string()) {
    auto parsed = ParseOrderedJson(schema->get_ref<const std::string&>(), "");
    if (parsed.ok() && parsed->is_object()) return OutputForm(JsonSchemaForm{*std::move(parsed)});
  }
  return fields.Bad(key, "must be a JSON schema");
}

Result<OutputForm> ReadChoices(const RequestFields& fields, std::string_view key) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson* texts, fields.Array(key));
  ChoiceForm form;
  for (const OrderedJson& text : *texts) {
    if (!text.is_string()) return fields.Bad(key, "must be an array of strings");
    form.texts.push_back(text.get<std::string>());
  }
  if (form.texts.empty()) return fields.Bad(key, "has no strings");
  return OutputForm(std::move(form));
}

/// vLLM's three ways to say it, with names that begin with `prefix`; adds what it finds.
Result<void> ReadGuided(const RequestFields& fields, std::string_view prefix,
                        std::vector<OutputForm>& found) {
  const std::string json = fmt::format("{}json", prefix);
  const std::string regex = fmt::format("{}regex", prefix);
  const std::string choice = fmt::format("{}choice", prefix);
  if (fields.Find(json) != nullptr) {
    KV8_ASSIGN_OR_RETURN(found.emplace_back(), SchemaForm(fields, json));
  }
  KV8_ASSIGN_OR_RETURN(std::optional<std::string> pattern, fields.String(regex));
  if (pattern) found.emplace_back(RegexForm{*std::move(pattern)});
  if (fields.Find(choice) != nullptr) {
    KV8_ASSIGN_OR_RETURN(found.emplace_back(), ReadChoices(fields, choice));
  }
  return {};
}

Result<void> ReadStructuredOutputs(const RequestFields& body, std::vector<OutputForm>& found) {
  KV8_ASSIGN_OR_RETURN(const auto fields, body.Object("structured_outputs"));
  if (!fields) return {};
  KV8_RETURN_IF_ERROR(ReadGuided(*fields, "", found));
  KV8_ASSIGN_OR_RETURN(const bool any_object, fields->Bool("json_object", false));
  if (any_object) found.emplace_back(JsonObjectForm{});
  constexpr std::array<std::string_view, 4> kRead = {"json", "regex", "choice", "json_object"};
  for (const auto& [key, value] : fields->json().items()) {
    if (value.is_null() || std::find(kRead.begin(), kRead.end(), key) != kRead.end()) continue;
    Error error = fields->Bad(key, "is not supported", "use a JSON schema or a regular expression");
    error.code = Code::kUnsupported;
    return error;
  }
  return {};
}

/// llama.cpp's and SGLang's ways to say it.
Result<void> ReadBareForms(const RequestFields& body, std::vector<OutputForm>& found) {
  if (body.Find("json_schema") != nullptr) {
    KV8_ASSIGN_OR_RETURN(found.emplace_back(), SchemaForm(body, "json_schema"));
  }
  KV8_ASSIGN_OR_RETURN(std::optional<std::string> pattern, body.String("regex"));
  if (pattern) found.emplace_back(RegexForm{*std::move(pattern)});
  return {};
}

}  // namespace

Result<OutputForm> ReadFormat(const RequestFields& format, std::string_view schema_key) {
  KV8_ASSIGN_OR_RETURN(const std::string type, format.RequiredString("type"));
  if (type == "text") return OutputForm();
  if (type == "json_object" && format.Find("schema") == nullptr) {
    return OutputForm(JsonObjectForm{});
  }
  if (type == "json_object") return SchemaForm(format, "schema");
  if (type != "json_schema") {
    return format.Bad("type",
                      fmt::format("is \"{}\"; it must be text, json_object or json_schema", type));
  }
  if (schema_key.empty()) return SchemaForm(format, "schema");
  KV8_ASSIGN_OR_RETURN(const auto holder, format.Object(schema_key));
  if (!holder) return format.Bad(schema_key, "is missing");
  return SchemaForm(*holder, "schema");
}

Result<OutputForm> ReadOutputForm(const RequestFields& body) {
  std::vector<OutputForm> found;
  KV8_ASSIGN_OR_RETURN(const auto format, body.Object("response_format"));
  if (format) {
    KV8_ASSIGN_OR_RETURN(OutputForm form, ReadFormat(*format, "json_schema"));
    if (form.index() != 0) found.push_back(std::move(form));
  }
  KV8_RETURN_IF_ERROR(ReadGuided(body, "guided_", found));
  KV8_RETURN_IF_ERROR(ReadStructuredOutputs(body, found));
  KV8_RETURN_IF_ERROR(ReadBareForms(body, found));
  if (found.empty()) return OutputForm();
  if (found.size() > 1) {
    return BadField("response_format", "is one of several demands on the form of the output",
                    "make one");
  }
  return std::move(found.front());
}

}  // namespace kv8::openai
