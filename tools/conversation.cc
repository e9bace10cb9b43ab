#include "conversation.h"

#include <fmt/format.h>

#include <utility>

namespace kv8 {
namespace {

Error Bad(std::string_view where, std::string what) {
  return Error{Code::kCorrupt, std::move(what), std::string(where),
               R"(give a list of messages, or {"messages": [...], "tools": [...], ...})"};
}

/// Moves one field of a request to its place.
Result<void> TakeField(const std::string& name, OrderedJson& value, std::string_view where,
                       ChatInput& input) {
  if (name == "messages") {
    input.messages = std::move(value);
  } else if (name == "tools") {
    input.tools = std::move(value);
  } else if (name == "add_generation_prompt" && value.is_boolean()) {
    input.add_generation_prompt = value.get<bool>();
  } else if (name == "chat_template_kwargs" && value.is_object()) {
    input.variables = std::move(value);
  } else {
    return Bad(where, fmt::format("\"{}\" is unknown, or not of its type", name));
  }
  return {};
}

}  // namespace

Result<MarkedText> RenderUserMessage(const ChatTemplate& chat, std::string_view text) {
  ChatInput input;
  input.messages.push_back({{"role", "user"}, {"content", text}});
  return chat.Render(input);
}

Result<MarkedText> RenderConversation(const ChatTemplate& chat, std::string_view json,
                                      std::string_view where) {
  KV8_ASSIGN_OR_RETURN(OrderedJson document, ParseOrderedJson(json, where));
  ChatInput input;
  if (document.is_array()) {
    input.messages = std::move(document);
  } else if (document.is_object()) {
    for (auto& [name, value] : document.items()) {
      KV8_RETURN_IF_ERROR(TakeField(name, value, where, input));
    }
  } else {
    return Bad(where, "is neither a list nor an object");
  }
  ParseCallArguments(input.messages);
  return chat.Render(input);
}

}  // namespace kv8
