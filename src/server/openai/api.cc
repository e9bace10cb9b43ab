#include "server/openai/api.h"

#include <chrono>
#include <utility>

#include "server/openai/answer.h"

namespace kv8::openai {
namespace {

constexpr std::string_view kModelsPath = "/v1/models";

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

void Answer(Endpoint endpoint, const ApiContext& context, const HttpRequest& request,
            const std::shared_ptr<Responder>& responder) {
  const auto handle = [&]() -> Result<void> {
    KV8_ASSIGN_OR_RETURN(const OrderedJson body, ParseBody(request.body));
    return endpoint(context, body, responder);
  };
  if (const auto handled = handle(); !handled.ok()) SendFailure(*responder, handled.error());
}

}  // namespace

Result<std::unique_ptr<Api>> Api::Create(EngineService& service, const ApiOptions& options) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  KV8_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Load(options.model_dir / "tokenizer.json"));
  KV8_ASSIGN_OR_RETURN(auto chat_template, LoadTemplate(options.model_dir));
  KV8_ASSIGN_OR_RETURN(std::string tokenizer_info, ReadTokenizerInfo(options.model_dir));
  auto constraints = std::make_unique<Constraints>(tokenizer);
  ApiContext context{.service = &service,
                     .tokenizer = std::move(tokenizer),
                     .chat_template = std::move(chat_template),
                     .constraints = std::move(constraints),
                     .tokenizer_info = std::move(tokenizer_info),
                     .model_name = options.model_name.empty() ? DirectoryName(options.model_dir)
                                                              : options.model_name,
                     .created = std::chrono::duration_cast<std::chrono::seconds>(now).count()};
  return std::unique_ptr<Api>(new Api(std::move(context), options.max_waiting));
}

Api::Api(ApiContext context, std::size_t max_waiting)
    : context_(std::move(context)), tasks_(max_waiting) {}

void Api::AddRoutes(Router& router) {
  const auto add = [&](std::string_view path, Endpoint endpoint) {
    router.Add("POST", path,
               [this, endpoint](HttpRequest request, const std::shared_ptr<Responder>& to) {
                 auto task = [this, endpoint, request = std::move(request), to] {
                   Answer(endpoint, context_, request, to);
                 };
                 if (!tasks_.Post(std::move(task))) SendOverloaded(*to, kRetryAfterSeconds);
               });
  };
  add("/v1/completions", HandleCompletion);
  add("/v1/chat/completions", HandleChat);
  add("/v1/responses", HandleResponses);
  add("/tokenize", HandleTokenize);
  add("/detokenize", HandleDetokenize);

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
               const auto known = context_.CheckModel(request.path.substr(kModelsPath.size() + 1));
               if (!known.ok()) return SendFailure(*to, known.error());
               to->Send(200, kJsonType, ModelCard(context_));
             });
}

}  // namespace kv8::openai
