// POST /v1/chat/completions
#include <utility>

#include "server/openai/api_context.h"
#include "server/openai/chat_answer.h"
#include "server/openai/chat_prompt.h"
#include "server/openai/chat_request.h"

namespace kv8::openai {

Result<void> HandleChat(const ApiContext& context, const OrderedJson& body,
                        const std::shared_ptr<Responder>& responder) {
  KV8_ASSIGN_OR_RETURN(ChatRequest parsed, ParseChatRequest(body));
  KV8_RETURN_IF_ERROR(context.CheckModel(parsed.model));
  KV8_ASSIGN_OR_RETURN(ChatPrompt prompt, PrepareChat(context, parsed.input));
  Request request = std::move(parsed.common);
  request.prompt = std::move(prompt.ids);
  request.cache_points = std::move(prompt.cache_points);
  ChatContext answer{.responder = responder,
                     .tokenizer = &context.tokenizer,
                     .model = context.model_name,
                     .streaming = parsed.streaming,
                     .choices = request.choices,
                     .tools = std::move(parsed.input.tools),
                     .parallel_calls = parsed.tool_choice.parallel,
                     .reasoning_open = prompt.reasoning_open};
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return context.Submit(std::move(requests), AnswerChat(std::move(answer)), *responder);
}

}  // namespace kv8::openai
