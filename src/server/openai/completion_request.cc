#include "server/openai/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "server/openai/api_context.h"
#include "server/openai/known_fields.h"

namespace kv8::openai {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 16;  // OpenAI's

Error BadPrompt() {
  return BadField("prompt",
                  "must be a string, an array of strings, an array of token ids, or an array of "
                  "arrays of token ids");
}

Result<std::vector<TokenId>> ReadIds(const OrderedJson& array) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (const OrderedJson& element : array) {
    const auto id = TokenIdOf(element);
    if (!id) return BadPrompt();
    ids.push_back(*id);
  }
  return ids;
}

Result<std::vector<PromptInput>> ReadPrompts(const RequestFields& body) {
  const OrderedJson* prompt = body.Find("prompt");
  if (prompt == nullptr) return body.Bad("prompt", "is missing");
  std::vector<PromptInput> prompts;
  if (prompt->is_string()) {
    prompts.emplace_back(prompt->get<std::string>());
    return prompts;
  }
  if (!prompt->is_array()) return BadPrompt();
  if (prompt->empty()) return body.Bad("prompt", "has no prompts");
  if (prompt->front().is_number()) {
    KV8_ASSIGN_OR_RETURN(std::vector<TokenId> ids, ReadIds(*prompt));
    prompts.emplace_back(std::move(ids));
    return prompts;
  }
  if (prompt->size() > kMaxPrompts) {
    return body.Bad("prompt", fmt::format("has {} prompts; at most {} are possible", prompt->size(),
                                          kMaxPrompts));
  }
  for (const OrderedJson& element : *prompt) {
    if (element.type() != prompt->front().type()) return BadPrompt();
    if (element.is_string()) {
      prompts.emplace_back(element.get<std::string>());
    } else if (element.is_array()) {
      KV8_ASSIGN_OR_RETURN(std::vector<TokenId> ids, ReadIds(element));
      prompts.emplace_back(std::move(ids));
    } else {
      return BadPrompt();
    }
  }
  return prompts;
}

Result<void> CheckBestOf(const RequestFields& body, int choices) {
  KV8_ASSIGN_OR_RETURN(const auto best_of,
                       body.Integer("best_of", 1, std::numeric_limits<int>::max()));
  if (!best_of || *best_of == choices) return {};
  Error error = body.Bad("best_of", fmt::format("is {}, and n is {}", *best_of, choices),
                         "choosing the best of more is not supported: leave it out");
  error.code = Code::kUnsupported;
  return error;
}

}  // namespace

Result<CompletionRequest> ParseCompletionRequest(const OrderedJson& json,
                                                 const GenerationDefaults& defaults) {
  KV8_ASSIGN_OR_RETURN(const RequestFields body, RequestFields::Of(json));
  CompletionRequest parsed;
  KV8_ASSIGN_OR_RETURN(parsed.model, body.RequiredString("model"));
  KV8_RETURN_IF_ERROR(RefuseUnsupported(body, kCompletions));
  KV8_ASSIGN_OR_RETURN(parsed.prompts, ReadPrompts(body));
  KV8_ASSIGN_OR_RETURN(parsed.applied_defaults, ReadSampling(body, defaults, parsed.common));
  KV8_RETURN_IF_ERROR(CheckBestOf(body, parsed.common.choices));
  KV8_ASSIGN_OR_RETURN(parsed.form, ReadOutputForm(body));
  KV8_ASSIGN_OR_RETURN(parsed.streaming, ReadStream(body));

  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  KV8_ASSIGN_OR_RETURN(const auto max_tokens, body.Integer("max_tokens", 0, kMax));
  parsed.common.max_tokens = max_tokens.value_or(kDefaultMaxTokens);
  KV8_ASSIGN_OR_RETURN(const auto logprobs, body.Integer("logprobs", 0, kMax));
  if (logprobs) parsed.common.logprobs = static_cast<int>(*logprobs);
  KV8_ASSIGN_OR_RETURN(parsed.echo, body.Bool("echo", false));
  KV8_ASSIGN_OR_RETURN(parsed.return_token_ids, body.Bool("return_token_ids", false));
  if (parsed.return_token_ids && parsed.streaming.stream) {
    return body.Bad("return_token_ids", "is not possible in a stream", "leave one of the two out");
  }
  if (parsed.echo && parsed.streaming.stream && logprobs) {
    return body.Bad("echo", "and \"logprobs\" together are not possible in a stream",
                    "leave one of the three out");
  }
  if (parsed.echo) parsed.common.prompt_logprobs = parsed.common.logprobs;
  return parsed;
}

Result<std::vector<Request>> EngineRequests(const CompletionRequest& parsed,
                                            const Tokenizer& tokenizer, std::size_t max_ids) {
  std::vector<Request> requests;
  requests.reserve(parsed.prompts.size());
  for (const PromptInput& prompt : parsed.prompts) {
    Request request = parsed.common;
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
      request.prompt = *ids;
    } else {
      KV8_ASSIGN_OR_RETURN(request.prompt,
                           tokenizer.Encode(std::get<std::string>(prompt), max_ids));
      if (request.prompt.size() > max_ids) return PromptTooLong(max_ids, "prompt");
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

}  // namespace kv8::openai
