// A conversation as the text of a prompt, through the checkpoint's own Jinja template.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/marked_text.h"
#include "base/ordered_json.h"
#include "kv8/error.h"

namespace kv8 {

namespace jinja {
class Template;
}

/// The roles of messages, which are names rather than texts: their authors do not matter.
inline constexpr std::array<std::string_view, 6> kChatRoles = {
    "system", "developer", "user", "assistant", "tool", "function"};

/// Most variables that a conversation may bring along.
inline constexpr std::size_t kMaxTemplateVariables = 1000;

/// What a template is rendered with.
struct ChatInput {
  OrderedJson messages = OrderedJson::array();  // objects with "role", "content", ...
  OrderedJson tools;                            // array of tool definitions; null: none
  bool add_generation_prompt = true;            // end with the opening of an assistant's message
  /// Further variables by name, such as "enable_thinking"; they win over special tokens.
  OrderedJson variables = OrderedJson::object();
  std::stop_token stop = {};  // ends the rendering early
};

/// The chat template of one checkpoint. Renders what `apply_chat_template` of the `transformers`
/// library renders; docs/guide/chat-templates.md has the details.
/// Immutable: Render may be called from any number of threads at once.
class ChatTemplate {
 public:
  /// Special tokens by variable name: "bos_token" -> "<s>".
  using SpecialTokens = std::map<std::string, std::string>;

  /// Reads chat_template.jinja, or else "chat_template" of tokenizer_config.json, and the special
  /// tokens. Errors: kNotFound when the directory has no template; kCorrupt for a file that is not
  /// what it must be, a template's syntax error (with its line) included; those of ReadFile.
  static Result<ChatTemplate> Load(const std::filesystem::path& model_dir);

  /// A template from its text; `name` stands for it in errors. Errors: kCorrupt.
  static Result<ChatTemplate> Parse(std::string_view source, std::string_view name,
                                    SpecialTokens special_tokens = {});

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Whether a template speaks of a variable of this name: one that it does not mention cannot
  /// change what it renders.
  bool Mentions(std::string_view name) const { return names_.contains(name); }

  /// The prompt's text. What comes of messages of the assistant is marked as kAssistant, what comes
  /// of any others, of the tools and of the variables as kOther. Keys of messages whose value is
  /// null count as absent. Takes time in proportion to the input, and the template's own, which has
  /// limits. Errors: kInvalidArgument for input that the template refuses or cannot work with, with
  /// the template, the line and its cause; kResourceExhausted for one that runs into a limit;
  /// kCancelled.
  Result<MarkedText> Render(const ChatInput& input) const;

 private:
  ChatTemplate();
  Result<std::unique_ptr<const jinja::Template>> ParseOne(std::string_view source,
                                                          std::string_view name);

  std::unique_ptr<const jinja::Template> default_;
  std::unique_ptr<const jinja::Template> tool_use_;  // taken when there are tools; may be null
  std::set<std::string, std::less<>> names_;         // of both, attributes apart
  SpecialTokens special_tokens_;
};

/// Replaces the arguments of earlier tool calls, which OpenAI's protocol carries as JSON in a
/// string, by the object that they spell, which templates expect. None, null, "null" and empty text
/// are an empty object; other text that spells no object stays as it is. `messages` may hold
/// anything.
void ParseCallArguments(OrderedJson& messages);

}  // namespace kv8
