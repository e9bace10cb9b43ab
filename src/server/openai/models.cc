// GET /v1/models
#include "base/json_writer.h"
#include "server/openai/api_context.h"

namespace kv8::openai {
namespace {

void WriteCard(JsonWriter& json, const ApiContext& context) {
  json.BeginObject().Key("id").String(context.model_name).Key("object").String("model");
  json.Key("created").Integer(context.created).Key("owned_by").String("kv8");
  json.Key("root").String(context.model_name).Key("parent").Null();
  json.Key("max_model_len").Integer(context.service->model().max_model_len).EndObject();
}

}  // namespace

std::string ModelCard(const ApiContext& context) {
  std::string body;
  JsonWriter json(body);
  WriteCard(json, context);
  return body;
}

std::string ModelList(const ApiContext& context) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  WriteCard(json, context);
  json.EndArray().EndObject();
  return body;
}

}  // namespace kv8::openai
