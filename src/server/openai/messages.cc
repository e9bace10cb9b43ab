#include "server/openai/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat_template.h"
#include "text/tool_call_parser.h"

namespace kv8::openai {
namespace {

constexpr std::array<std::string_view, 5> kTextParts = {"text", "input_text", "output_text",
                                                        "reasoning_text", "refusal"};

Error NotText(std::string path, std::string_view type) {
  Error error =
      BadField(std::move(path), fmt::format("is \"{}\"; this model reads text only", type),
               "send parts of type \"text\"");
  error.code = Code::kUnsupported;
  return error;
}

Result<void> AppendPart(const OrderedJson& part, const std::string& path, std::string& text) {
  KV8_ASSIGN_OR_RETURN(const RequestFields fields, RequestFields::Of(part, path));
  KV8_ASSIGN_OR_RETURN(const std::string type, fields.RequiredString("type"));
  if (std::find(kTextParts.begin(), kTextParts.end(), type) == kTextParts.end()) {
    return NotText(fields.PathOf("type"), type);
  }
  KV8_ASSIGN_OR_RETURN(const std::string piece,
                       fields.RequiredString(type == "refusal" ? "refusal" : "text"));
  text += piece;
  return {};
}

/// Earlier calls of an assistant.
Result<void> CheckCalls(const RequestFields& message) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson* calls, message.Array("tool_calls"));
  if (calls == nullptr) return {};
  for (std::size_t i = 0; i < calls->size(); ++i) {
    KV8_ASSIGN_OR_RETURN(
        const RequestFields call,
        RequestFields::Of((*calls)[i], ElementPath(message.PathOf("tool_calls"), i)));
    KV8_ASSIGN_OR_RETURN(const auto function, call.Object("function"));
    if (!function) return call.Bad("function", "is missing");
    KV8_RETURN_IF_ERROR(function->RequiredString("name"));
    const OrderedJson* arguments = function->Find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      return function->Bad("arguments", "must be a string that holds a JSON object");
    }
  }
  return {};
}

/// What other servers' messages may say and templates do not read.
Result<void> RefuseOtherForms(const RequestFields& message) {
  constexpr std::pair<const char*, const char*> kOthers[] = {
      {"prefix", "use \"continue_final_message\""},
      {"partial", "use \"continue_final_message\""},
      {"function_call", "use \"tool_calls\""},
      {"audio", "send its text"}};
  for (const auto& [name, remedy] : kOthers) {
    const OrderedJson* value = message.Find(name);
    if (value == nullptr || *value == false) continue;
    Error error = message.Bad(name, "is not supported", remedy);
    error.code = Code::kUnsupported;
    return error;
  }
  return {};
}

Result<OrderedJson> ReadMessage(const OrderedJson& json, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const RequestFields fields, RequestFields::Of(json, path));
  KV8_ASSIGN_OR_RETURN(const std::string role, fields.RequiredString("role"));
  if (std::find(kChatRoles.begin(), kChatRoles.end(), role) == kChatRoles.end()) {
    return fields.Bad(
        "role", fmt::format("is \"{}\"; it must be one of {}", role, fmt::join(kChatRoles, ", ")));
  }
  const OrderedJson* content = fields.Find("content");
  if (content == nullptr && role != "assistant") return fields.Bad("content", "is missing");
  for (const char* name : {"reasoning_content", "name", "tool_call_id"}) {
    KV8_RETURN_IF_ERROR(fields.String(name));
  }
  KV8_RETURN_IF_ERROR(RefuseOtherForms(fields));
  KV8_RETURN_IF_ERROR(CheckCalls(fields));
  OrderedJson message = json;
  if (content != nullptr) {
    KV8_ASSIGN_OR_RETURN(message["content"], ReadContent(*content, fields.PathOf("content")));
  }
  return message;
}

/// Names of parameters stand between angle brackets in the model's text, like those of functions.
Result<void> CheckParameterNames(const RequestFields& function) {
  KV8_ASSIGN_OR_RETURN(const auto parameters, function.Object("parameters"));
  if (!parameters) return {};
  KV8_ASSIGN_OR_RETURN(const auto properties, parameters->Object("properties"));
  if (!properties) return {};
  for (const auto& [name, schema] : properties->json().items()) {
    if (IsToolName(name)) continue;
    return properties->Bad(
        name, "is no name that a call can hold",
        fmt::format("use 1 to {} bytes without <, > and line ends", kMaxToolNameBytes));
  }
  return {};
}

Result<OrderedJson> ReadTool(const OrderedJson& json, const std::string& path) {
  KV8_ASSIGN_OR_RETURN(const RequestFields tool, RequestFields::Of(json, path));
  KV8_ASSIGN_OR_RETURN(const std::string type, tool.RequiredString("type"));
  if (type != "function") {
    Error error = tool.Bad("type", fmt::format("is \"{}\"; only functions are supported", type));
    error.code = Code::kUnsupported;
    return error;
  }
  KV8_ASSIGN_OR_RETURN(const auto nested, tool.Object("function"));
  const RequestFields& function = nested ? *nested : tool;
  KV8_ASSIGN_OR_RETURN(const std::string name, function.RequiredString("name"));
  if (!IsToolName(name)) return function.Bad("name", "is no name of a function");
  KV8_RETURN_IF_ERROR(function.String("description"));
  KV8_RETURN_IF_ERROR(function.Bool("strict", false));
  KV8_RETURN_IF_ERROR(CheckParameterNames(function));
  if (nested) return json;
  OrderedJson members = json;
  members.erase("type");
  return OrderedJson{{"type", "function"}, {"function", std::move(members)}};
}

}  // namespace

Result<OrderedJson> ReadContent(const OrderedJson& content, const std::string& path) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) return BadField(path, "must be a string or an array of text parts");
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    KV8_RETURN_IF_ERROR(AppendPart(content[i], ElementPath(path, i), text));
  }
  return OrderedJson(std::move(text));
}

Result<OrderedJson> ReadMessages(const RequestFields& body) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson* given, body.Array("messages"));
  if (given == nullptr || given->empty()) return body.Bad("messages", "has no message");
  OrderedJson messages = OrderedJson::array();
  for (std::size_t i = 0; i < given->size(); ++i) {
    KV8_ASSIGN_OR_RETURN(OrderedJson message,
                         ReadMessage((*given)[i], ElementPath(body.PathOf("messages"), i)));
    messages.push_back(std::move(message));
  }
  ParseCallArguments(messages);
  return messages;
}

Result<OrderedJson> ReadTools(const RequestFields& body) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson* given, body.Array("tools"));
  if (given == nullptr || given->empty()) return OrderedJson();
  OrderedJson tools = OrderedJson::array();
  for (std::size_t i = 0; i < given->size(); ++i) {
    KV8_ASSIGN_OR_RETURN(OrderedJson tool,
                         ReadTool((*given)[i], ElementPath(body.PathOf("tools"), i)));
    tools.push_back(std::move(tool));
  }
  return tools;
}

}  // namespace kv8::openai
