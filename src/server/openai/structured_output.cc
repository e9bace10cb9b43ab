#include "server/openai/structured_output.h"

#include <fmt/format.h>

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
  for (const char* other : {"grammar", "structural_tag"}) {
    const std::string key = fmt::format("{}{}", prefix, other);
    if (fields.Find(key) == nullptr) continue;
    Error error = fields.Bad(key, "is not supported", "use a JSON schema or a regular expression");
    error.code = Code::kUnsupported;
    return error;
  }
  return {};
}

}  // namespace

Result<OutputForm> ReadFormat(const RequestFields& format, std::string_view schema_key) {
  KV8_ASSIGN_OR_RETURN(const std::string type, format.RequiredString("type"));
  if (type == "text") return OutputForm();
  if (type == "json_object") return OutputForm(JsonObjectForm{});
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
  KV8_ASSIGN_OR_RETURN(const auto structured, body.Object("structured_outputs"));
  if (structured) KV8_RETURN_IF_ERROR(ReadGuided(*structured, "", found));
  if (found.empty()) return OutputForm();
  if (found.size() > 1) {
    return BadField("response_format", "is one of several demands on the form of the output",
                    "make one");
  }
  return std::move(found.front());
}

}  // namespace kv8::openai
