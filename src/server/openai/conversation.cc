#include "server/openai/conversation.h"

#include <utility>

#include "server/openai/chat_prompt.h"
#include "server/openai/messages.h"
#include "server/openai/output_constraint.h"

namespace kv8::openai {
namespace {

/// The publisher's limit, where neither the request nor the context sets a lower one.
void LimitAnswer(const ApiContext& context, PreparedRequest& prepared) {
  const std::optional<std::int64_t> limit = context.generation.max_new_tokens;
  Request& request = prepared.request;
  if (request.max_tokens || !limit) return;
  if (*limit >= context.service->model().max_model_len - std::ssize(request.prompt)) return;
  request.max_tokens = limit;
  prepared.applied_defaults["max_new_tokens"] = *limit;
}

}  // namespace

Result<void> ReadConversationTools(const RequestFields& body, Conversation& conversation) {
  KV8_ASSIGN_OR_RETURN(OrderedJson tools, ReadTools(body));
  KV8_ASSIGN_OR_RETURN(conversation.tool_choice, ReadToolChoice(body, tools));
  // A model that shall call none does not hear of them.
  if (conversation.tool_choice.mode != ToolChoice::Mode::kNone) {
    conversation.input.tools = std::move(tools);
  }
  return {};
}

namespace {

/// PrepareChat, whose errors about the messages name what the body calls them.
Result<ChatPrompt> PrepareOwn(const ApiContext& context, const Conversation& conversation) {
  auto prompt =
      PrepareChat(context, conversation.input, conversation.template_fields, context.max_prompt());
  if (prompt.ok() || prompt.error().where != "messages") return prompt;
  Error error = std::move(prompt).error();
  error.where = conversation.prompt_field;
  return error;
}

}  // namespace

Result<PreparedRequest> Prepare(const ApiContext& context, const Conversation& conversation) {
  const OrderedJson& tools = conversation.input.tools;
  KV8_ASSIGN_OR_RETURN(ChatPrompt prompt, PrepareOwn(context, conversation));
  PreparedRequest prepared{.request = conversation.common,
                           .applied_defaults = conversation.applied_defaults,
                           .form = {.reasoning_open = prompt.reasoning_open,
                                    .tools = tools,
                                    .parallel_calls = conversation.tool_choice.parallel,
                                    .constrained_calls = ConstrainsCalls(
                                        conversation.form, conversation.tool_choice, tools),
                                    .stop = {}}};
  Request& request = prepared.request;
  request.prompt = std::move(prompt.ids);
  request.cache_points = std::move(prompt.cache_points);
  LimitAnswer(context, prepared);
  KV8_ASSIGN_OR_RETURN(request.constraint,
                       ConstrainAnswer(context, conversation.form, conversation.tool_choice, tools,
                                       prompt.reasoning_open));
  prepared.form.stop = std::exchange(request.stop, {});
  for (const std::string& stop : prepared.form.stop) {
    if (stop.empty()) return BadField("stop", "holds an empty string", "leave it out");
  }
  return prepared;
}

}  // namespace kv8::openai
