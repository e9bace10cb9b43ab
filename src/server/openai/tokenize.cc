// POST /tokenize and /detokenize and GET /tokenizer_info, in vLLM's form.
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "server/openai/answer.h"
#include "server/openai/api_context.h"
#include "server/openai/chat_prompt.h"
#include "server/openai/known_fields.h"
#include "server/openai/messages.h"
#include "server/openai/token_logprob.h"

namespace kv8::openai {
namespace {

Result<void> CheckModelIfGiven(const ApiContext& context, const RequestFields& body) {
  KV8_ASSIGN_OR_RETURN(const auto model, body.String("model"));
  return model ? context.CheckModel(*model) : Result<void>();
}

/// The ids of "prompt", or of "messages" through the chat template.
Result<std::vector<TokenId>> IdsOf(const ApiContext& context, const RequestFields& body,
                                   std::stop_token stop) {
  KV8_ASSIGN_OR_RETURN(const auto text, body.String("prompt"));
  if (text && body.Find("messages") != nullptr) {
    return body.Bad("messages", "are one prompt, and \"prompt\" is another", "leave one out");
  }
  if (text) return context.tokenizer.Encode(*text);
  if (body.Find("messages") == nullptr) {
    return body.Bad("prompt", "is missing, and so are \"messages\"");
  }
  ChatInput input;
  KV8_ASSIGN_OR_RETURN(input.messages, ReadMessages(body));
  KV8_ASSIGN_OR_RETURN(input.tools, ReadTools(body));
  KV8_ASSIGN_OR_RETURN(const TemplateFields fields, ReadTemplateFields(body));
  input.stop = std::move(stop);
  KV8_ASSIGN_OR_RETURN(ChatPrompt prompt, PrepareChat(context, std::move(input), fields));
  return std::move(prompt.ids);
}

}  // namespace

Result<void> HandleTokenize(const ApiContext& context, const OrderedJson& json,
                            const std::shared_ptr<Responder>& responder) {
  KV8_ASSIGN_OR_RETURN(const RequestFields body, RequestFields::Of(json));
  KV8_RETURN_IF_ERROR(CheckModelIfGiven(context, body));
  KV8_RETURN_IF_ERROR(RefuseUnsupported(body, kTokenize));
  KV8_ASSIGN_OR_RETURN(const bool with_texts, body.Bool("return_token_strs", false));
  KV8_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                       IdsOf(context, body, StopWhenGone(*responder)));

  std::string text;
  JsonWriter answer(text);
  answer.BeginObject().Key("count").Integer(std::ssize(ids));
  answer.Key("max_model_len").Integer(context.service->model().max_model_len);
  answer.Key("tokens").BeginArray();
  for (const TokenId id : ids) answer.Integer(id);
  answer.EndArray().Key("token_strs");
  if (with_texts) {
    answer.BeginArray();
    for (const TokenId id : ids) answer.String(TokenText(context.tokenizer, id));
    answer.EndArray();
  } else {
    answer.Null();
  }
  answer.EndObject();
  responder->Send(200, kJsonType, std::move(text));
  return {};
}

Result<void> HandleDetokenize(const ApiContext& context, const OrderedJson& json,
                              const std::shared_ptr<Responder>& responder) {
  KV8_ASSIGN_OR_RETURN(const RequestFields body, RequestFields::Of(json));
  KV8_RETURN_IF_ERROR(CheckModelIfGiven(context, body));
  KV8_ASSIGN_OR_RETURN(const OrderedJson* tokens, body.Array("tokens"));
  if (tokens == nullptr) return body.Bad("tokens", "is missing");
  std::vector<TokenId> ids;
  for (const OrderedJson& token : *tokens) {
    const auto id = TokenIdOf(token);
    if (!id) return body.Bad("tokens", "must be an array of token ids");
    ids.push_back(*id);
  }
  auto decoded = context.tokenizer.Decode(ids);
  if (!decoded.ok()) return body.Bad("tokens", decoded.error().what);

  std::string text;
  JsonWriter(text).BeginObject().Key("prompt").String(*decoded).EndObject();
  responder->Send(200, kJsonType, std::move(text));
  return {};
}

Result<std::string> ReadTokenizerInfo(const std::filesystem::path& model_dir) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
  Json info = Json::object();
  const std::filesystem::path config = model_dir / "tokenizer_config.json";
  if (PathExists(config)) {
    KV8_ASSIGN_OR_RETURN(info, ReadJsonFile(config, kMaxBytes));
  }
  const std::filesystem::path chat_template = model_dir / "chat_template.jinja";
  if (PathExists(chat_template)) {
    KV8_ASSIGN_OR_RETURN(info["chat_template"], ReadFile(chat_template, kMaxBytes));
  }
  return info.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace kv8::openai
