#include "server/openai/responses_request.h"

#include <array>
#include <limits>
#include <utility>

#include "server/openai/responses_input.h"
#include "server/openai/sampling_params.h"

namespace kv8::openai {
namespace {

/// Each refers to something that the server would have to keep, or to do by itself.
constexpr std::array kNeedsStorage = {"previous_response_id", "conversation", "prompt"};

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

Result<void> RefuseStorage(const RequestFields& body) {
  for (const char* field : kNeedsStorage) {
    if (body.Find(field) == nullptr) continue;
    Error error = body.Bad(field, "is not supported: nothing is stored",
                           "send the whole conversation as \"input\"");
    error.code = Code::kUnsupported;
    return error;
  }
  KV8_ASSIGN_OR_RETURN(const bool background, body.Bool("background", false));
  if (background) {
    Error error = body.Bad("background", "is not supported", "wait for the answer");
    error.code = Code::kUnsupported;
    return error;
  }
  return {};
}

Result<OutputForm> ReadTextFormat(const RequestFields& body) {
  KV8_ASSIGN_OR_RETURN(const auto text, body.Object("text"));
  if (!text) return OutputForm();
  KV8_ASSIGN_OR_RETURN(const auto format, text->Object("format"));
  return format ? ReadFormat(*format, "") : OutputForm();
}

OrderedJson RepeatedFields(const RequestFields& body) {
  OrderedJson repeated = OrderedJson::object();
  for (const auto& [field, otherwise] : kRepeated) {
    const OrderedJson* given = body.Find(field);
    repeated[field] = given != nullptr ? *given : OrderedJson::parse(otherwise);
  }
  return repeated;
}

}  // namespace

Result<ResponsesRequest> ParseResponsesRequest(const OrderedJson& json) {
  KV8_ASSIGN_OR_RETURN(const RequestFields body, RequestFields::Of(json));
  ResponsesRequest parsed;
  Conversation& conversation = parsed.conversation;
  KV8_ASSIGN_OR_RETURN(parsed.model, body.RequiredString("model"));
  KV8_RETURN_IF_ERROR(RefuseStorage(body));
  KV8_ASSIGN_OR_RETURN(conversation.input.messages, ReadResponsesInput(body));
  KV8_RETURN_IF_ERROR(ReadToolsAndVariables(body, conversation));
  KV8_RETURN_IF_ERROR(ReadSampling(body, conversation.common));
  conversation.common.choices = 1;  // there is no "n" here
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  KV8_ASSIGN_OR_RETURN(conversation.common.max_tokens, body.Integer("max_output_tokens", 1, kMax));
  KV8_ASSIGN_OR_RETURN(conversation.form, ReadTextFormat(body));
  KV8_ASSIGN_OR_RETURN(parsed.stream, body.Bool("stream", false));
  KV8_RETURN_IF_ERROR(body.Bool("store", true));
  KV8_RETURN_IF_ERROR(body.Object("metadata"));
  KV8_RETURN_IF_ERROR(body.Object("reasoning"));
  parsed.repeated = RepeatedFields(body);
  return parsed;
}

}  // namespace kv8::openai
