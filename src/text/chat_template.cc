#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/lfs_pointer.h"
#include "jinja/json_text.h"
#include "jinja/lexer.h"
#include "jinja/template.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{4} << 20;

/// ReadFile; nullopt for a file that is not there.
Result<std::optional<std::string>> ReadIfThere(const std::filesystem::path& path,
                                               std::uint64_t max_bytes) {
  auto content = ReadFile(path, max_bytes);
  if (content.ok() && IsLfsPointer(*content)) return LfsPointerError(path.string());
  if (content.ok()) return std::optional(std::move(*content));
  if (content.error().code == Code::kNotFound) return std::optional<std::string>();
  return std::move(content).error();
}

/// A JSON object from a file; empty when the file is not there.
Result<OrderedJson> ReadConfig(const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(const auto text, ReadIfThere(path, kMaxConfigBytes));
  if (!text) return OrderedJson::object();
  KV8_ASSIGN_OR_RETURN(OrderedJson config, ParseOrderedJson(*text, path.string()));
  if (config.is_object()) return config;
  return Error{Code::kCorrupt, "must be a JSON object", path.string(),
               "restore the file from its source"};
}

/// Adds the tokens that `config` names and `tokens` does not have yet: a text, or an object with
/// the text as "content".
void AddSpecialTokens(const OrderedJson& config, ChatTemplate::SpecialTokens& tokens) {
  static constexpr std::array kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
  const auto add = [&tokens](const std::string& name, const OrderedJson& token) {
    if (token.is_string()) tokens.emplace(name, token.get<std::string>());
    const auto content = token.is_object() ? token.find("content") : token.end();
    if (token.is_object() && content != token.end() && content->is_string()) {
      tokens.emplace(name, content->get<std::string>());
    }
  };
  for (const char* name : kNames) {
    if (const auto it = config.find(name); it != config.end()) add(name, *it);
  }
  const auto extra = config.find("extra_special_tokens");
  if (extra == config.end() || !extra->is_object()) return;
  for (const auto& [name, token] : extra->items()) add(name, token);
}

/// The templates of a checkpoint by name; "default" is the one without a name.
using Sources = std::map<std::string, std::string>;

Result<Sources> SourcesIn(const OrderedJson& config, const std::string& where) {
  const auto bad = [&where](std::string_view problem) {
    return Error{Code::kCorrupt, fmt::format("\"chat_template\" {}", problem), where,
                 "give the template as a text, or as a list of objects with name and template"};
  };
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return Sources();
  if (found->is_string()) return Sources{{"default", found->get<std::string>()}};
  if (!found->is_array()) return bad("is neither a text nor a list");
  Sources sources;
  for (const OrderedJson& entry : *found) {
    const bool complete = entry.is_object() && entry.contains("name") &&
                          entry["name"].is_string() && entry.contains("template") &&
                          entry["template"].is_string();
    if (!complete) return bad("has an entry without name and template");
    sources[entry["name"].get<std::string>()] = entry["template"].get<std::string>();
  }
  return sources;
}

struct NamedSources {
  Sources sources;
  std::string where;
};

Result<NamedSources> FindSources(const std::filesystem::path& dir, const OrderedJson& config) {
  const std::filesystem::path file = dir / "chat_template.jinja";
  KV8_ASSIGN_OR_RETURN(auto text, ReadIfThere(file, kMaxTemplateBytes));
  if (!text) {
    const std::string where = (dir / "tokenizer_config.json").string();
    KV8_ASSIGN_OR_RETURN(Sources sources, SourcesIn(config, where));
    return NamedSources{std::move(sources), where};
  }
  Sources sources{{"default", std::move(*text)}};
  KV8_ASSIGN_OR_RETURN(auto tool_use,
                       ReadIfThere(dir / "chat_templates" / "tool_use.jinja", kMaxTemplateBytes));
  if (tool_use) sources["tool_use"] = std::move(*tool_use);
  return NamedSources{std::move(sources), file.string()};
}

/// A key and its value, as `author` wrote them.
Result<void> AddMember(const std::string& key, const OrderedJson& value, Author author,
                       jinja::Dict& out) {
  KV8_ASSIGN_OR_RETURN(jinja::Value name, jinja::FromJson(key, author));
  KV8_ASSIGN_OR_RETURN(jinja::Value converted, jinja::FromJson(value, author));
  return out.Set(std::move(name), std::move(converted));
}

bool IsRole(const OrderedJson& value) {
  return value.is_string() && std::find(kChatRoles.begin(), kChatRoles.end(),
                                        value.get_ref<const std::string&>()) != kChatRoles.end();
}

/// A message as templates get it: what is null is left out, and reasoning has all the names that
/// templates know it by.
Result<jinja::Value> MessageValue(const OrderedJson& message) {
  static constexpr std::array kReasoning = {"reasoning_content", "thinking", "reasoning"};
  const auto role = message.find("role");
  const bool by_model = role != message.end() && *role == "assistant";
  const Author author = by_model ? Author::kAssistant : Author::kOther;
  const OrderedJson* reasoning = nullptr;
  for (const char* name : kReasoning) {
    const auto it = message.find(name);
    if (reasoning == nullptr && it != message.end() && !it->is_null()) reasoning = &*it;
  }
  jinja::Dict out;
  if (reasoning != nullptr && !message.contains("thinking")) {
    KV8_RETURN_IF_ERROR(AddMember("thinking", *reasoning, author, out));
  }
  for (const auto& [key, value] : message.items()) {
    const Author by = key == "role" && IsRole(value) ? Author::kTemplate : author;
    if (!value.is_null()) KV8_RETURN_IF_ERROR(AddMember(key, value, by, out));
  }
  if (reasoning != nullptr) {
    KV8_RETURN_IF_ERROR(AddMember("reasoning_content", *reasoning, author, out));
  }
  return jinja::MakeDict(std::move(out));
}

Result<jinja::Value> MessageList(const OrderedJson& messages) {
  std::vector<jinja::Value> list;
  for (const OrderedJson& message : messages) {
    KV8_ASSIGN_OR_RETURN(jinja::Value value, MessageValue(message));
    list.push_back(std::move(value));
  }
  return jinja::MakeList(std::move(list));
}

Result<void> CheckMessages(const OrderedJson& messages) {
  const auto bad = [](std::string what) {
    return Error{Code::kInvalidArgument, std::move(what), "messages",
                 "give a list of objects with role and content"};
  };
  if (!messages.is_array() || messages.empty()) return bad("must be a list with a message in it");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) return bad(fmt::format("message {} is not an object", i));
  }
  return {};
}

Result<void> CheckVariables(const OrderedJson& variables) {
  if (variables.size() <= kMaxTemplateVariables) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{} variables; a template takes at most {}", variables.size(),
                           kMaxTemplateVariables),
               "chat_template_kwargs", "send fewer, or lists and objects of them"};
}

/// Adds a variable; an error says which one it is about.
Result<void> AddVariable(const std::string& name, Result<jinja::Value> value,
                         jinja::Template::Variables& variables) {
  if (!value.ok()) {
    Error error = std::move(value).error();
    error.where = name;
    return error;
  }
  variables.emplace_back(name, std::move(*value));
  return {};
}

void ParseArguments(OrderedJson& arguments) {
  if (arguments.is_string()) {
    const auto& text = arguments.get_ref<const std::string&>();
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
      arguments = nullptr;
    } else if (auto parsed = ParseOrderedJson(text, "arguments");
               parsed.ok() && (parsed->is_object() || parsed->is_null())) {
      arguments = std::move(*parsed);
    }
  }
  // How clients write that a call has none.
  if (arguments.is_null()) arguments = OrderedJson::object();
}

}  // namespace

ChatTemplate::ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<const jinja::Template>> ChatTemplate::ParseOne(std::string_view source,
                                                                      std::string_view name) {
  KV8_ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::Parse(source, name));
  KV8_ASSIGN_OR_RETURN(const auto tokens, jinja::Tokenize(source, name));
  bool attribute = false;
  for (const jinja::Token& token : tokens) {
    if (token.type == jinja::Token::Type::kName && !attribute) names_.insert(token.text);
    attribute = token.IsOperator(".");
  }
  return std::make_unique<const jinja::Template>(std::move(parsed));
}

Result<ChatTemplate> ChatTemplate::Load(const std::filesystem::path& model_dir) {
  KV8_ASSIGN_OR_RETURN(const OrderedJson config, ReadConfig(model_dir / "tokenizer_config.json"));
  KV8_ASSIGN_OR_RETURN(const OrderedJson token_map,
                       ReadConfig(model_dir / "special_tokens_map.json"));
  ChatTemplate chat;
  AddSpecialTokens(config, chat.special_tokens_);
  AddSpecialTokens(token_map, chat.special_tokens_);
  KV8_ASSIGN_OR_RETURN(NamedSources found, FindSources(model_dir, config));
  if (!found.sources.contains("default")) {
    return Error{Code::kNotFound, "the checkpoint has no chat template", model_dir.string(),
                 "add chat_template.jinja, or give the prompt as plain text"};
  }
  KV8_ASSIGN_OR_RETURN(chat.default_, chat.ParseOne(found.sources["default"], found.where));
  if (const auto it = found.sources.find("tool_use"); it != found.sources.end()) {
    KV8_ASSIGN_OR_RETURN(chat.tool_use_, chat.ParseOne(it->second, found.where + " (tool_use)"));
  }
  return chat;
}

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string_view name,
                                         SpecialTokens special_tokens) {
  ChatTemplate chat;
  chat.special_tokens_ = std::move(special_tokens);
  KV8_ASSIGN_OR_RETURN(chat.default_, chat.ParseOne(source, name));
  return chat;
}

Result<MarkedText> ChatTemplate::Render(const ChatInput& input) const {
  KV8_RETURN_IF_ERROR(CheckMessages(input.messages));
  KV8_RETURN_IF_ERROR(CheckVariables(input.variables));
  // Of two with one name the later wins.
  jinja::Template::Variables variables;
  for (const auto& [name, token] : special_tokens_) {
    variables.emplace_back(name, jinja::Value(token));
  }
  variables.emplace_back("documents", jinja::Value());
  if (input.variables.is_object()) {
    for (const auto& [name, json] : input.variables.items()) {
      KV8_RETURN_IF_ERROR(AddVariable(name, jinja::FromJson(json), variables));
    }
  }
  KV8_RETURN_IF_ERROR(AddVariable("messages", MessageList(input.messages), variables));
  KV8_RETURN_IF_ERROR(AddVariable("tools", jinja::FromJson(input.tools), variables));
  variables.emplace_back("add_generation_prompt", jinja::Value(input.add_generation_prompt));
  const bool uses_tools = tool_use_ != nullptr && !input.tools.is_null();
  jinja::Limits limits;
  limits.stop = input.stop;
  return (uses_tools ? *tool_use_ : *default_).Render(variables, limits);
}

void ParseCallArguments(OrderedJson& messages) {
  if (!messages.is_array()) return;
  for (OrderedJson& message : messages) {
    if (!message.is_object() || !message.contains("tool_calls")) continue;
    OrderedJson& calls = message["tool_calls"];
    if (!calls.is_array()) continue;
    for (OrderedJson& call : calls) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
        continue;
      ParseArguments(call["function"]["arguments"]);
    }
  }
}

}  // namespace kv8
