// What the endpoints work with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/constraint.h"
#include "kv8/error.h"
#include "server/engine_service.h"
#include "server/http/responder.h"
#include "server/openai/request_fields.h"
#include "server/openai/structured_output.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kv8::openai {

struct ApiContext {
  EngineService* service = nullptr;
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;
  std::string model_name;
  std::int64_t created = 0;  // seconds since 1970

  /// kNotFound unless a request's model is the one that is served.
  Result<void> CheckModel(const std::string& name) const;
  /// What makes the output have this form; null for any. Errors: kInvalidArgument for a form that
  /// makes no sense, kUnsupported.
  Result<std::shared_ptr<const TokenConstraint>> Constrain(const OutputForm& form) const;
  /// Puts requests in line; a client that hangs up takes them out again.
  Result<void> Submit(std::vector<Request> requests, std::shared_ptr<GenerationSink> sink,
                      Responder& responder) const;
};

/// Answers one request, now or later. An error is the caller's to send.
using Endpoint = Result<void> (*)(const ApiContext& context, const OrderedJson& body,
                                  const std::shared_ptr<Responder>& responder);

Result<void> HandleCompletion(const ApiContext& context, const OrderedJson& body,
                              const std::shared_ptr<Responder>& responder);
Result<void> HandleChat(const ApiContext& context, const OrderedJson& body,
                        const std::shared_ptr<Responder>& responder);
Result<void> HandleTokenize(const ApiContext& context, const OrderedJson& body,
                            const std::shared_ptr<Responder>& responder);
Result<void> HandleDetokenize(const ApiContext& context, const OrderedJson& body,
                              const std::shared_ptr<Responder>& responder);

/// The bodies of GET /v1/models and GET /v1/models/NAME.
std::string ModelList(const ApiContext& context);
std::string ModelCard(const ApiContext& context);

}  // namespace kv8::openai
