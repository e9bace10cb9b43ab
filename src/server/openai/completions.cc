// POST /v1/completions
#include <utility>

#include "server/openai/api_context.h"
#include "server/openai/completion_answer.h"
#include "server/openai/completion_request.h"
#include "server/openai/output_constraint.h"

namespace kv8::openai {

Result<void> HandleCompletion(const ApiContext& context, const OrderedJson& body,
                              const std::shared_ptr<Responder>& responder) {
  KV8_ASSIGN_OR_RETURN(CompletionRequest parsed, ParseCompletionRequest(body, context.generation));
  KV8_RETURN_IF_ERROR(context.CheckModel(parsed.model));
  KV8_ASSIGN_OR_RETURN(parsed.common.constraint, ConstrainForm(context, parsed.form));
  KV8_ASSIGN_OR_RETURN(std::vector<Request> requests,
                       EngineRequests(parsed, context.tokenizer, context.max_prompt()));
  CompletionContext answer{.responder = responder,
                           .tokenizer = &context.tokenizer,
                           .model = parsed.model,
                           .request = {},
                           .prompts = {}};
  answer.request = std::move(parsed);
  if (answer.request.echo) {
    for (const Request& request : requests) answer.prompts.push_back(request.prompt);
  }
  return context.Submit(std::move(requests), AnswerCompletion(std::move(answer)), *responder);
}

}  // namespace kv8::openai
