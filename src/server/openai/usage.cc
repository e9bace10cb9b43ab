#include "server/openai/usage.h"

namespace kv8::openai {

Usage TotalUsage(std::span<const Completion> completions) {
  Usage total;
  for (const Completion& completion : completions) {
    total.prompt_tokens += completion.usage.prompt_tokens;
    total.completion_tokens += completion.usage.completion_tokens;
    total.cached_tokens += completion.usage.cached_tokens;
  }
  return total;
}

void WriteUsage(JsonWriter& json, const Usage& usage, const OrderedJson& applied_defaults,
                std::int64_t reasoning_tokens) {
  json.BeginObject().Key("prompt_tokens").Integer(usage.prompt_tokens);
  json.Key("completion_tokens").Integer(usage.completion_tokens);
  json.Key("total_tokens").Integer(usage.prompt_tokens + usage.completion_tokens);
  json.Key("prompt_tokens_details").BeginObject();
  json.Key("cached_tokens").Integer(usage.cached_tokens).EndObject();
  if (reasoning_tokens > 0) {
    json.Key("completion_tokens_details").BeginObject();
    json.Key("reasoning_tokens").Integer(reasoning_tokens).EndObject();
  }
  AddDefaults(json, applied_defaults);
  json.EndObject();
}

void AddDefaults(JsonWriter& json, const OrderedJson& applied_defaults) {
  if (!applied_defaults.empty()) json.Key("generation_config").Raw(applied_defaults.dump());
}

}  // namespace kv8::openai
