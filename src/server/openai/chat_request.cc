#include "server/openai/chat_request.h"

#include <limits>
#include <utility>

#include "server/openai/known_fields.h"
#include "server/openai/messages.h"

namespace kv8::openai {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

/// max_completion_tokens, or max_tokens as it was called before.
Result<void> ReadMaxTokens(const RequestFields& body, Request& request, LengthFields& lengths) {
  KV8_ASSIGN_OR_RETURN(const auto old_name, body.Integer("max_tokens", 1, kMaxInt));
  KV8_ASSIGN_OR_RETURN(request.max_tokens, body.Integer("max_completion_tokens", 1, kMaxInt));
  if (request.max_tokens) lengths.max_tokens = "max_completion_tokens";
  if (!request.max_tokens) {
    request.max_tokens = old_name;
  } else if (old_name && *old_name != *request.max_tokens) {
    return body.Bad("max_completion_tokens", "contradicts \"max_tokens\"", "leave one out");
  }
  return {};
}

Result<void> ReadLogprobs(const RequestFields& body, Request& request) {
  KV8_ASSIGN_OR_RETURN(const bool wanted, body.Bool("logprobs", false));
  KV8_ASSIGN_OR_RETURN(const auto top, body.Integer("top_logprobs", 0, kMaxInt));
  if (wanted) {
    request.logprobs = static_cast<int>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    return body.Bad("top_logprobs", "needs \"logprobs\" to be true");
  }
  return {};
}

}  // namespace

Result<ChatRequest> ParseChatRequest(const OrderedJson& json, const GenerationDefaults& defaults) {
  KV8_ASSIGN_OR_RETURN(const RequestFields body, RequestFields::Of(json));
  ChatRequest parsed;
  Conversation& conversation = parsed.conversation;
  KV8_ASSIGN_OR_RETURN(parsed.model, body.RequiredString("model"));
  KV8_RETURN_IF_ERROR(RefuseUnsupported(body, kChat));
  KV8_ASSIGN_OR_RETURN(conversation.input.messages, ReadMessages(body));
  KV8_RETURN_IF_ERROR(ReadConversationTools(body, conversation));
  KV8_ASSIGN_OR_RETURN(conversation.template_fields, ReadTemplateFields(body));
  KV8_ASSIGN_OR_RETURN(conversation.applied_defaults,
                       ReadSampling(body, defaults, conversation.common));
  KV8_RETURN_IF_ERROR(ReadMaxTokens(body, conversation.common, parsed.lengths));
  KV8_RETURN_IF_ERROR(ReadLogprobs(body, conversation.common));
  KV8_ASSIGN_OR_RETURN(conversation.form, ReadOutputForm(body));
  KV8_ASSIGN_OR_RETURN(parsed.streaming, ReadStream(body));
  return parsed;
}

}  // namespace kv8::openai
