#include "server/openai/api_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kv8::openai {

Result<void> ApiContext::CheckModel(const std::string& name) const {
  if (std::find(model_names.begin(), model_names.end(), name) != model_names.end()) return {};
  return Error{Code::kNotFound, fmt::format("there is no model \"{}\"", name), "model",
               fmt::format("ask for \"{}\"", fmt::join(model_names, "\" or \""))};
}

Result<void> ApiContext::Submit(std::vector<Request> requests, std::shared_ptr<GenerationSink> sink,
                                Responder& responder) const {
  if (!share_prefixes) {
    for (Request& request : requests) request.prefix_group = responder.client();
  }
  KV8_ASSIGN_OR_RETURN(const GenerationId id,
                       service->Submit(std::move(requests), std::move(sink)));
  responder.OnClose([engine = service, id] { engine->Cancel(id); });
  return {};
}

std::stop_token StopWhenGone(Responder& responder) {
  std::stop_source source;
  responder.OnClose([source]() mutable { source.request_stop(); });
  return source.get_token();
}

Error PromptTooLong(std::size_t max_ids, std::string field) {
  return Error{
      Code::kTooLong,
      fmt::format("This model's maximum context length is {} tokens. However, you requested "
                  "{} tokens or more",
                  max_ids, max_ids + 1),
      std::move(field), "shorten the prompt"};
}

}  // namespace kv8::openai
