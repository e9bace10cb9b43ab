// POST /v1/responses
#include <utility>

#include "server/openai/api_context.h"
#include "server/openai/responses_answer.h"
#include "server/openai/responses_request.h"

namespace kv8::openai {

Result<void> HandleResponses(const ApiContext& context, const OrderedJson& body,
                             const std::shared_ptr<Responder>& responder) {
  KV8_ASSIGN_OR_RETURN(ResponsesRequest parsed, ParseResponsesRequest(body, context.generation));
  KV8_RETURN_IF_ERROR(context.CheckModel(parsed.model));
  parsed.conversation.input.stop = StopWhenGone(*responder);
  KV8_ASSIGN_OR_RETURN(PreparedRequest prepared, Prepare(context, parsed.conversation));
  ResponsesContext answer{.responder = responder,
                          .model = parsed.model,
                          .stream = parsed.stream,
                          .repeated = std::move(parsed.repeated),
                          .form = std::move(prepared.form),
                          .applied_defaults = std::move(prepared.applied_defaults)};
  std::vector<Request> requests;
  requests.push_back(std::move(prepared.request));
  return context.Submit(std::move(requests), AnswerResponses(std::move(answer)), *responder);
}

}  // namespace kv8::openai
