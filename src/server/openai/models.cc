// GET /v1/models
#include <charconv>

#include "base/json_writer.h"
#include "server/openai/api_context.h"

namespace kv8::openai {
namespace {

void WriteCard(JsonWriter& json, const ApiContext& context, std::string_view name) {
  json.BeginObject().Key("id").String(name).Key("object").String("model");
  json.Key("created").Integer(context.created).Key("owned_by").String("kv8");
  json.Key("root").String(context.model_names.front()).Key("parent").Null();
  json.Key("max_model_len").Integer(context.service->model().max_model_len).EndObject();
}

}  // namespace

std::string ModelCard(const ApiContext& context, std::string_view name) {
  std::string body;
  JsonWriter json(body);
  WriteCard(json, context, name);
  return body;
}

std::string ModelList(const ApiContext& context) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const std::string& name : context.model_names) WriteCard(json, context, name);
  json.EndArray().EndObject();
  return body;
}

std::string DecodePercent(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    unsigned byte = 0;
    const bool escape =
        text.size() > 2 && text[0] == '%' &&
        std::from_chars(text.data() + 1, text.data() + 3, byte, 16).ptr == text.data() + 3;
    decoded += escape ? static_cast<char>(byte) : text[0];
    text.remove_prefix(escape ? 3 : 1);
  }
  return decoded;
}

}  // namespace kv8::openai
