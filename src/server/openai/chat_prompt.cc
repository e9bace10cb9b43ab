#include "server/openai/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "server/openai/answer.h"
#include "text/reasoning_parser.h"

namespace kv8::openai {
namespace {

Result<MarkedText> Render(const ChatTemplate& chat_template, const ChatInput& input) {
  auto rendered = chat_template.Render(input);
  if (rendered.ok() || rendered.error().code == Code::kCancelled) return rendered;
  // What a template refuses, and what it takes too long for, lies in the conversation. Where the
  // template lies is the server's business; which line refused is the client's too.
  Error error = std::move(rendered).error();
  if (error.where == "chat_template_kwargs") return error;
  error.code = Code::kInvalidArgument;
  error.what =
      fmt::format("{}: {}", std::filesystem::path(error.where).filename().string(), error.what);
  error.where = "messages";
  return error;
}

/// The text up to the end of the last message's content, so that the answer goes on with it. As in
/// `transformers`: a mark tells where the content ends in what is rendered; a template that trims
/// the content trims the text as well.
Result<MarkedText> RenderContinued(const ChatTemplate& chat_template, ChatInput input) {
  OrderedJson& last = input.messages.back();
  const std::string path = ElementPath("messages", input.messages.size() - 1);
  if (last["role"] != "assistant") {
    return BadField(path + ".role", "must be assistant for \"continue_final_message\"");
  }
  if (last.contains("tool_calls") && !last["tool_calls"].empty()) {
    return BadField(path + ".tool_calls", "cannot be continued", "let the content be the end");
  }
  if (!last.contains("content") || !last["content"].is_string()) {
    return BadField(path + ".content",
                    "is missing, and \"continue_final_message\" goes on with it");
  }
  const std::string mark = NewId("end");
  last["content"] = fmt::format("{}{} ", last["content"].get_ref<const std::string&>(), mark);
  KV8_ASSIGN_OR_RETURN(const MarkedText whole, Render(chat_template, input));
  std::string_view text = whole.text();
  const std::size_t end = text.rfind(mark);
  if (end == std::string_view::npos) {
    return BadField("continue_final_message",
                    "is not possible: the chat template does not show the last message's content",
                    "leave it out");
  }
  const bool trimmed = text[end + mark.size()] != ' ';
  text = text.substr(0, end);
  if (trimmed) text = text.substr(0, text.find_last_not_of(" \t\n\r\v\f") + 1);
  MarkedText continued;
  continued.AppendPart(whole, text);
  return continued;
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

Result<ChatPrompt> PrepareChat(const ApiContext& context, ChatInput input,
                               const TemplateFields& fields, std::size_t max_ids) {
  if (!context.chat_template) {
    return Error{Code::kUnsupported, "this model has no chat template", "messages",
                 "use /v1/completions"};
  }
  KV8_ASSIGN_OR_RETURN(input.variables, VariablesFor(*context.chat_template, fields));
  input.add_generation_prompt = fields.add_generation_prompt;
  KV8_ASSIGN_OR_RETURN(const MarkedText text, fields.continue_final_message
                                                  ? RenderContinued(*context.chat_template, input)
                                                  : Render(*context.chat_template, input));
  ChatPrompt prompt;
  KV8_ASSIGN_OR_RETURN(prompt.ids, context.allow_control_tokens
                                       ? context.tokenizer.Encode(text.text(), max_ids)
                                       : context.tokenizer.Encode(text, max_ids));
  if (prompt.ids.size() > max_ids) return PromptTooLong(max_ids, "messages");
  if (HasSystemPrompt(input)) {
    prompt.cache_points = EndOfFirstMessage(prompt.ids, context.tokenizer);
  }
  prompt.reasoning_open = PromptOpensReasoning(text.text());
  return prompt;
}

}  // namespace kv8::openai
