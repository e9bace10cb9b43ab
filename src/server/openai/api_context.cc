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

}  // namespace kv8::openai
