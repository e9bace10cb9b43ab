#include "server/openai/responses_request.h"

#include <array>
#include <limits>
#include <utility>

#include "server/openai/known_fields.h"
#include "server/openai/responses_input.h"
#include "server/openai/sampling_params.h"

namespace kv8::openai {
namespace {

/// Fields of an answer that repeat the request, in order, with their values by default.
struct Repeated {
  const char* field;
  const char* otherwise;  // JSON
};
constexpr std::array kRepeated = {
    Repeated{"instructions", "null"},
    Repeated{"max_output_tokens", "null"},
    Repeated{"parallel_tool_calls", "true"},
    Repeated{"reasoning", "null"},
    Repeated{"temperature", "1"},
    Repeated{"text", R"({"format":{"type":"text"}})"},
    Repeated{"tool_choice", R"("auto")"},
    Repeated{"tools", "[]"},
    Repeated{"top_p", "1"},
    Repeated{"metadata", "{}"},
    Repeated{"user", "null"},
};

/// What an answer shall tell beside itself. Log-probabilities are not among what this endpoint has;
/// the rest is about tools that a server runs, and an encryption that nothing here needs.
Result<void> CheckInclude(const RequestFields& body) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson* include, body.Array("include"));
  if (include == nullptr) return {};
  for (const OrderedJson& name : *include) {
    if (!name.is_string()) return body.Bad("include", "must be an array of strings");
    if (name != "message.output_text.logprobs") continue;
    Error error = body.Bad("include", "asks for log-probabilities, which is not supported",
                           "use /v1/chat/completions");
    error.code = Code::kUnsupported;
    return error;
  }
  return {};
}

Result<void> ReadReasoning(const RequestFields& body, TemplateFields& fields) {
  KV8_ASSIGN_OR_RETURN(const auto reasoning, body.Object("reasoning"));
  return reasoning ? ReadEffort(*reasoning, "effort", fields) : Result<void>();
}

Result<OutputForm> ReadTextFormat(const RequestFields& body) {
  KV8_ASSIGN_OR_RETURN(const auto text, body.Object("text"));
  if (!text) return OutputForm();
  KV8_ASSIGN_OR_RETURN(const auto format, text->Object("format"));
  return format ? ReadFormat(*format, "") : OutputForm();
}

/// `applied`: what holds of a field that is not given, where generation_config.json speaks for it.
OrderedJson RepeatedFields(const RequestFields& body, const OrderedJson& applied) {
  OrderedJson repeated = OrderedJson::object();
  for (const auto& [field, otherwise] : kRepeated) {
    const OrderedJson* given = body.Find(field);
    if (given == nullptr && applied.contains(field)) given = &applied[field];
    repeated[field] = given != nullptr ? *given : OrderedJson::parse(otherwise);
  }
  return repeated;
}

}  // namespace

Result<ResponsesRequest> ParseResponsesRequest(const OrderedJson& json,
                                               const GenerationDefaults& defaults) {
  KV8_ASSIGN_OR_RETURN(const RequestFields body, RequestFields::Of(json));
  ResponsesRequest parsed;
  Conversation& conversation = parsed.conversation;
  KV8_ASSIGN_OR_RETURN(parsed.model, body.RequiredString("model"));
  KV8_RETURN_IF_ERROR(RefuseUnsupported(body, kResponses));
  KV8_RETURN_IF_ERROR(CheckInclude(body));
  conversation.prompt_field = "input";
  KV8_ASSIGN_OR_RETURN(conversation.input.messages, ReadResponsesInput(body));
  KV8_RETURN_IF_ERROR(ReadConversationTools(body, conversation));
  KV8_RETURN_IF_ERROR(ReadReasoning(body, conversation.template_fields));
  KV8_ASSIGN_OR_RETURN(conversation.applied_defaults,
                       ReadSampling(body, defaults, conversation.common));
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  KV8_ASSIGN_OR_RETURN(conversation.common.max_tokens, body.Integer("max_output_tokens", 1, kMax));
  KV8_ASSIGN_OR_RETURN(conversation.form, ReadTextFormat(body));
  KV8_ASSIGN_OR_RETURN(parsed.stream, body.Bool("stream", false));
  KV8_RETURN_IF_ERROR(body.Bool("store", true));
  KV8_RETURN_IF_ERROR(body.Object("metadata"));
  parsed.repeated = RepeatedFields(body, conversation.applied_defaults);
  return parsed;
}

}  // namespace kv8::openai
