// POST /v1/chat/completions
#include <utility>

#include "server/openai/api_context.h"
#include "server/openai/chat_answer.h"
#include "server/openai/chat_request.h"

namespace kv8::openai {

Result<void> HandleChat(const ApiContext& context, const OrderedJson& body,
                        const std::shared_ptr<Responder>& responder) {
  KV8_ASSIGN_OR_RETURN(ChatRequest parsed, ParseChatRequest(body, context.generation));
  KV8_RETURN_IF_ERROR(context.CheckModel(parsed.model));
  parsed.conversation.input.stop = StopWhenGone(*responder);
  KV8_ASSIGN_OR_RETURN(PreparedRequest prepared, Prepare(context, parsed.conversation));
  ChatContext answer{.responder = responder,
                     .tokenizer = &context.tokenizer,
                     .model = parsed.model,
                     .streaming = parsed.streaming,
                     .lengths = parsed.lengths,
                     .choices = prepared.request.choices,
                     .form = std::move(prepared.form),
                     .applied_defaults = std::move(prepared.applied_defaults)};
  std::vector<Request> requests;
  requests.push_back(std::move(prepared.request));
  return context.Submit(std::move(requests), AnswerChat(std::move(answer)), *responder);
}

}  // namespace kv8::openai
