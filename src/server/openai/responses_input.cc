#include "server/openai/responses_input.h"

#include <fmt/format.h>

#include <utility>

#include "server/openai/messages.h"
#include "text/chat_template.h"

namespace kv8::openai {
namespace {

/// Collects messages; what belongs to one answer of the assistant goes into one message.
class InputReader {
 public:
  Result<void> Add(const OrderedJson& json, const std::string& path) {
    KV8_ASSIGN_OR_RETURN(const RequestFields item, RequestFields::Of(json, path));
    KV8_ASSIGN_OR_RETURN(const auto given_type, item.String("type"));
    const std::string type = given_type.value_or("message");
    if (type == "message") return AddMessage(item);
    if (type == "function_call") return AddCall(item);
    if (type == "function_call_output") return AddOutput(item);
    if (type == "reasoning") return AddReasoning(item);
    Error error = item.Bad("type", fmt::format("is \"{}\", which is not supported", type));
    error.code = Code::kUnsupported;
    return error;
  }

  void AddInstructions(const std::string& text) {
    if (!messages_.empty() && IsSystem(messages_.front())) {
      auto& content = messages_.front()["content"].get_ref<std::string&>();
      content = fmt::format("{}\n\n{}", text, content);
    } else {
      messages_.insert(messages_.begin(), OrderedJson{{"role", "system"}, {"content", text}});
    }
  }

  OrderedJson Take() { return std::move(messages_); }

 private:
  static bool IsSystem(const OrderedJson& message) {
    return message["role"] == "system" || message["role"] == "developer";
  }

  Result<void> AddMessage(const RequestFields& item) {
    KV8_ASSIGN_OR_RETURN(const std::string role, item.RequiredString("role"));
    if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
      return item.Bad("role", fmt::format("is \"{}\"; it must be user, assistant, system or "
                                          "developer",
                                          role));
    }
    const OrderedJson* content = item.Find("content");
    if (content == nullptr) return item.Bad("content", "is missing");
    KV8_ASSIGN_OR_RETURN(OrderedJson text, ReadContent(*content, item.PathOf("content")));
    if (role == "assistant") {
      Assistant()["content"] = std::move(text);
    } else {
      messages_.push_back({{"role", role}, {"content", std::move(text)}});
    }
    return {};
  }

  Result<void> AddCall(const RequestFields& item) {
    KV8_ASSIGN_OR_RETURN(const std::string id, item.RequiredString("call_id"));
    KV8_ASSIGN_OR_RETURN(const std::string name, item.RequiredString("name"));
    if (!item.json().contains("arguments")) return item.Bad("arguments", "is missing");
    KV8_ASSIGN_OR_RETURN(const auto arguments, item.String("arguments"));
    Assistant()["tool_calls"].push_back(
        {{"id", id},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", arguments.value_or("")}}}});
    return {};
  }

  Result<void> AddOutput(const RequestFields& item) {
    KV8_ASSIGN_OR_RETURN(const std::string id, item.RequiredString("call_id"));
    const OrderedJson* output = item.Find("output");
    if (output == nullptr) return item.Bad("output", "is missing");
    KV8_ASSIGN_OR_RETURN(OrderedJson text, ReadContent(*output, item.PathOf("output")));
    messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(text)}});
    return {};
  }

  Result<void> AddReasoning(const RequestFields& item) {
    const OrderedJson* content = item.Find("content");
    if (content == nullptr) return {};  // a summary is no reasoning
    KV8_ASSIGN_OR_RETURN(OrderedJson text, ReadContent(*content, item.PathOf("content")));
    Assistant()["reasoning_content"] = std::move(text);
    return {};
  }

  /// The assistant's message that is being collected.
  OrderedJson& Assistant() {
    if (messages_.empty() || messages_.back()["role"] != "assistant") {
      messages_.push_back({{"role", "assistant"}, {"content", ""}});
    }
    return messages_.back();
  }

  OrderedJson messages_ = OrderedJson::array();
};

}  // namespace

Result<OrderedJson> ReadResponsesInput(const RequestFields& body) {
  const OrderedJson* input = body.Find("input");
  if (input == nullptr) return body.Bad("input", "is missing");
  InputReader reader;
  if (input->is_string()) {
    const OrderedJson message = {{"role", "user"}, {"content", *input}};
    KV8_RETURN_IF_ERROR(reader.Add(message, body.PathOf("input")));
  } else if (input->is_array() && !input->empty()) {
    for (std::size_t i = 0; i < input->size(); ++i) {
      KV8_RETURN_IF_ERROR(reader.Add((*input)[i], ElementPath(body.PathOf("input"), i)));
    }
  } else {
    return body.Bad("input", "must be a string or an array of items");
  }
  KV8_ASSIGN_OR_RETURN(const auto instructions, body.String("instructions"));
  if (instructions) reader.AddInstructions(*instructions);
  OrderedJson messages = reader.Take();
  ParseCallArguments(messages);
  return messages;
}

}  // namespace kv8::openai
