#include "server/openai/api.h"

#include <array>
#include <chrono>
#include <exception>
#include <utility>

#include "base/json_dismantle.h"
#include "server/http/error_body.h"
#include "server/openai/answer.h"
#include "server/openai/known_fields.h"

namespace kv8::openai {
namespace {

constexpr std::string_view kModelsPath = "/v1/models";

/// An endpoint with a body.
struct Route {
  std::string_view path;
  EndpointBit bit;
  Endpoint endpoint;
};
constexpr std::array kRoutes = {Route{"/v1/completions", kCompletions, HandleCompletion},
                                Route{"/v1/chat/completions", kChat, HandleChat},
                                Route{"/v1/responses", kResponses, HandleResponses},
                                Route{"/tokenize", kTokenize, HandleTokenize},
                                Route{"/detokenize", kDetokenize, HandleDetokenize}};

/// The last part of the directory's path, through links and dots.
std::string DirectoryName(const std::filesystem::path& dir) {
  std::error_code ignored;
  const std::filesystem::path full = std::filesystem::weakly_canonical(dir, ignored);
  const std::string name = full.filename().string();
  return name.empty() ? "model" : name;
}

Result<std::optional<ChatTemplate>> LoadTemplate(const std::filesystem::path& dir) {
  auto loaded = ChatTemplate::Load(dir);
  if (loaded.ok()) return std::optional(std::move(loaded).value());
  if (loaded.error().code == Code::kNotFound) return std::optional<ChatTemplate>();
  return std::move(loaded).error();
}

void Answer(const Route& route, const ApiContext& context, const HttpRequest& request,
            const std::shared_ptr<Responder>& responder) {
  const auto handle = [&]() -> Result<void> {
    KV8_ASSIGN_OR_RETURN(OrderedJson body, ParseBody(request.body));
    const DismantleAtExit guard(body);
    const std::string unknown = UnknownFields(body, route.bit);
    if (!unknown.empty()) responder->Note("ignored", unknown);
    return route.endpoint(context, body, responder);
  };
  try {
    if (const auto handled = handle(); !handled.ok()) SendFailure(*responder, handled.error());
  } catch (const std::exception& problem) {
    SendException(*responder, problem);
  }
}

}  // namespace

Result<std::unique_ptr<Api>> Api::Create(EngineService& service, const ApiOptions& options) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  KV8_ASSIGN_OR_RETURN(auto chat_template, LoadTemplate(options.model_dir));
  KV8_ASSIGN_OR_RETURN(std::string tokenizer_info, ReadTokenizerInfo(options.model_dir));
  auto constraints = std::make_unique<Constraints>(*options.tokenizer);
  ApiContext context{.service = &service,
                     .tokenizer = *options.tokenizer,
                     .chat_template = std::move(chat_template),
                     .constraints = std::move(constraints),
                     .tokenizer_info = std::move(tokenizer_info),
                     .model_names = options.model_names,
                     .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                     .share_prefixes = options.share_prefixes,

                     .allow_control_tokens = options.allow_control_tokens};
  if (options.generation_config) context.generation = service.model().generation;
  std::erase(context.model_names, "");
  if (context.model_names.empty()) context.model_names = {DirectoryName(options.model_dir)};
  return std::unique_ptr<Api>(new Api(std::move(context), options));
}

Api::Api(ApiContext context, const ApiOptions& options)
    : tokenizer_(options.tokenizer), context_(std::move(context)), tasks_(options.max_waiting) {}

void Api::AddRoutes(Router& router) {
  for (const Route& route : kRoutes) {
    router.Add("POST", route.path,
               [this, &route](HttpRequest request, const std::shared_ptr<Responder>& to) {
                 auto task = [this, &route, request = std::move(request), to] {
                   Answer(route, context_, request, to);
                 };
                 if (!tasks_.Post(std::move(task))) SendOverloaded(*to, kRetryAfterSeconds);
               });
  }
  router.Add("GET", "/tokenizer_info",
             [this](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
               responder->Send(200, kJsonType, context_.tokenizer_info);
             });
  router.Add("GET", kModelsPath,
             [this](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
               responder->Send(200, kJsonType, ModelList(context_));
             });
  router.Add("GET", "/v1/models/*",
             [this](const HttpRequest& request, const std::shared_ptr<Responder>& to) {
               const std::string name =
                   DecodePercent(std::string_view(request.path).substr(kModelsPath.size() + 1));
               const auto known = context_.CheckModel(name);
               if (!known.ok()) return SendFailure(*to, known.error());
               to->Send(200, kJsonType, ModelCard(context_, name));
             });
}

}  // namespace kv8::openai
