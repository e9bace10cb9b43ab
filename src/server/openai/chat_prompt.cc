#include "server/openai/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/reasoning_parser.h"

namespace kv8::openai {
namespace {

Result<std::string> Render(const ApiContext& context, const ChatInput& input) {
  if (!context.chat_template) {
    return Error{Code::kUnsupported, "this model has no chat template", "messages",
                 "use /v1/completions"};
  }
  auto rendered = context.chat_template->Render(input);
  if (rendered.ok()) return rendered;
  // What a template refuses, and what it takes too long for, lies in the conversation.
  Error error = std::move(rendered).error();
  error.code = Code::kInvalidArgument;
  error.what = fmt::format("{}: {}", error.where, error.what);
  error.where = "messages";
  return error;
}

/// Whether conversations begin with something that others share.
bool HasSystemPrompt(const ChatInput& input) {
  const OrderedJson& role = input.messages.front()["role"];
  return role == "system" || role == "developer" || !input.tools.is_null();
}

/// Where the first message ends. Chat formats open every message with the same special token.
std::vector<std::int64_t> EndOfFirstMessage(const std::vector<TokenId>& prompt,
                                            const Tokenizer& tokenizer) {
  if (prompt.empty() || !tokenizer.IsSpecial(prompt.front())) return {};
  const auto next = std::find(prompt.begin() + 1, prompt.end(), prompt.front());
  if (next == prompt.end()) return {};
  return {next - prompt.begin()};
}

}  // namespace

Result<ChatPrompt> PrepareChat(const ApiContext& context, const ChatInput& input) {
  KV8_ASSIGN_OR_RETURN(const std::string text, Render(context, input));
  ChatPrompt prompt;
  KV8_ASSIGN_OR_RETURN(prompt.ids, context.tokenizer.Encode(text));
  if (HasSystemPrompt(input)) {
    prompt.cache_points = EndOfFirstMessage(prompt.ids, context.tokenizer);
  }
  prompt.reasoning_open = PromptOpensReasoning(text);
  return prompt;
}

}  // namespace kv8::openai
