// What the endpoints work with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/constraints.h"
#include "kv8/error.h"
#include "server/engine_service.h"
#include "server/http/responder.h"
#include "server/openai/request_fields.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace kv8::openai {

struct ApiContext {
  EngineService* service = nullptr;
  const Tokenizer& tokenizer;
  std::optional<ChatTemplate> chat_template;
  std::unique_ptr<Constraints> constraints;
  std::string tokenizer_info;            // the body of GET /tokenizer_info
  std::vector<std::string> model_names;  // all are the one model's; never empty
  GenerationDefaults generation;         // for requests that do not say
  std::int64_t created = 0;              // seconds since 1970
  bool share_prefixes = false;           // of prompts between clients with different keys
  bool allow_control_tokens = false;     // in the texts of users and tools

  /// kNotFound unless a request's model is one of the names.
  Result<void> CheckModel(const std::string& name) const;
  /// Puts requests in line; a client that hangs up takes them out again.
  Result<void> Submit(std::vector<Request> requests, std::shared_ptr<GenerationSink> sink,
                      Responder& responder) const;
  /// Most tokens of a prompt that can be worked on.
  std::size_t max_prompt() const {
    return static_cast<std::size_t>(service->model().max_model_len);
  }
};

/// Stops when the client goes, until the request is submitted.
std::stop_token StopWhenGone(Responder& responder);

/// kTooLong for a prompt in `field` that has more tokens than fit, however many they are.
Error PromptTooLong(std::size_t max_ids, std::string field);

/// Answers one request, now or later. An error is the caller's to send.
using Endpoint = Result<void> (*)(const ApiContext& context, const OrderedJson& body,
                                  const std::shared_ptr<Responder>& responder);

Result<void> HandleCompletion(const ApiContext& context, const OrderedJson& body,
                              const std::shared_ptr<Responder>& responder);
Result<void> HandleChat(const ApiContext& context, const OrderedJson& body,
                        const std::shared_ptr<Responder>& responder);
Result<void> HandleResponses(const ApiContext& context, const OrderedJson& body,
                             const std::shared_ptr<Responder>& responder);
Result<void> HandleTokenize(const ApiContext& context, const OrderedJson& body,
                            const std::shared_ptr<Responder>& responder);
Result<void> HandleDetokenize(const ApiContext& context, const OrderedJson& body,
                              const std::shared_ptr<Responder>& responder);

/// tokenizer_config.json of a checkpoint and, as "chat_template", its template. Errors: those of
/// reading the files.
Result<std::string> ReadTokenizerInfo(const std::filesystem::path& model_dir);

/// The bodies of GET /v1/models and GET /v1/models/NAME.
std::string ModelList(const ApiContext& context);
std::string ModelCard(const ApiContext& context, std::string_view name);
/// A name as it was before it went into a path: "a%2Fb" is "a/b". What is no escape stays.
std::string DecodePercent(std::string_view text);

}  // namespace kv8::openai
