#include "server/openai/tool_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kv8::openai {
namespace {

using Mode = ToolChoice::Mode;

Result<Mode> ReadMode(const RequestFields& body, const std::string& name) {
  if (name == "none") return Mode::kNone;
  if (name == "auto") return Mode::kAuto;
  if (name == "required") return Mode::kRequired;
  return body.Bad("tool_choice",
                  fmt::format("is \"{}\"; it must be none, auto, required or a function", name));
}

Result<std::string> ReadName(const RequestFields& choice, const OrderedJson& tools) {
  KV8_ASSIGN_OR_RETURN(const std::string type, choice.RequiredString("type"));
  if (type != "function") return choice.Bad("type", "must be \"function\"");
  KV8_ASSIGN_OR_RETURN(const auto function, choice.Object("function"));
  const RequestFields& holder = function ? *function : choice;
  KV8_ASSIGN_OR_RETURN(std::string name, holder.RequiredString("name"));
  const auto has_name = [&](const OrderedJson& tool) { return tool["function"]["name"] == name; };
  if (!std::any_of(tools.begin(), tools.end(), has_name)) {
    return holder.Bad("name", fmt::format("is \"{}\", which is not among the tools", name));
  }
  return name;
}

}  // namespace

Result<ToolChoice> ReadToolChoice(const RequestFields& body, const OrderedJson& tools) {
  ToolChoice choice{.mode = tools.is_null() ? Mode::kNone : Mode::kAuto, .name = {}};
  KV8_ASSIGN_OR_RETURN(choice.parallel, body.Bool("parallel_tool_calls", true));
  const OrderedJson* given = body.Find("tool_choice");
  if (given == nullptr) return choice;
  if (given->is_string()) {
    KV8_ASSIGN_OR_RETURN(choice.mode, ReadMode(body, given->get<std::string>()));
  } else if (given->is_object()) {
    KV8_ASSIGN_OR_RETURN(const auto fields, body.Object("tool_choice"));
    KV8_ASSIGN_OR_RETURN(choice.name, ReadName(*fields, tools));
    choice.mode = Mode::kNamed;
    choice.parallel = false;  // the call of this function is the answer
  } else {
    return body.Bad("tool_choice", "must be a string or an object");
  }
  if (tools.is_null() && choice.mode == Mode::kRequired) {
    return body.Bad("tool_choice", "asks for a call, and there are no tools");
  }
  if (tools.is_null()) choice.mode = Mode::kNone;
  return choice;
}

}  // namespace kv8::openai
