#include "prompt.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/json_fields.h"
#include "command.h"
#include "conversation.h"
#include "family/model_config.h"
#include "text/tokenizer.h"

namespace kv8 {
namespace {

// A million ids of six digits. What is larger is refused by its size, at once.
constexpr std::uint64_t kMaxTokenIdsBytes = std::uint64_t{8} << 20;

Result<std::vector<TokenId>> ReadTokenIds(const std::filesystem::path& path) {
  const auto bad = [&path](std::string what) {
    return Error{.code = Code::kCorrupt,
                 .what = std::move(what),
                 .where = path.string(),
                 .remedy = "give a JSON array of token ids, such as [1, 2, 3]"};
  };
  KV8_ASSIGN_OR_RETURN(const Json json, ReadJsonFile(path, kMaxTokenIdsBytes));
  if (!json.is_array()) return bad("not a JSON array");
  std::vector<TokenId> ids;
  ids.reserve(json.size());
  for (const Json& item : json) {
    const auto id = AsTokenId(item);
    if (!id) return bad(fmt::format("entry {} is not a token id: {}", ids.size(), JsonText(item)));
    ids.push_back(*id);
  }
  return ids;
}

/// Tokenizer::Encode, whose error names the source of the text.
Result<std::vector<TokenId>> Encode(const Tokenizer& tokenizer, const MarkedText& text,
                                    bool allow_control_tokens, std::string where) {
  auto ids = allow_control_tokens ? tokenizer.Encode(text.text()) : tokenizer.Encode(text);
  if (ids.ok()) return ids;
  Error error = std::move(ids).error();
  error.where = std::move(where);
  return error;
}

}  // namespace

void AddPromptFlags(CLI::App& app, PromptFlags& flags) {
  CLI::App* group = app.add_option_group("prompt", "Exactly one of these");
  group->add_option("--prompt", flags.text, "Text, used as it is unless --chat is given");
  group->add_option("--prompt-file", flags.text_file, "File with the text")->check(NotEmpty());
  CLI::Option* ids =
      group->add_option("--token-ids", flags.token_ids_file, "File with a JSON array of token ids")
          ->check(NotEmpty());
  group->require_option(1);
  app.add_flag("--chat", flags.chat,
               "Put the text into the checkpoint's chat template, as a user's message")
      ->excludes(ids);
  AddControlTokensFlag(app, flags.allow_control_tokens);
}

Result<std::shared_ptr<const Tokenizer>> ModelTokenizer::Get() {
  if (tokenizer_ == nullptr) {
    KV8_ASSIGN_OR_RETURN(Tokenizer loaded, Tokenizer::Load(model_ / "tokenizer.json"));
    tokenizer_ = std::make_shared<const Tokenizer>(std::move(loaded));
  }
  return tokenizer_;
}

void AddControlTokensFlag(CLI::App& app, bool& allow) {
  app.add_flag("--allow-control-tokens", allow,
               "Let the texts of users and tools hold control tokens, such as <|im_end|>; without "
               "it they are text like any other");
}

Result<std::vector<TokenId>> ReadPrompt(const PromptFlags& flags, ModelTokenizer& tokenizer) {
  // A wrong directory or another family's checkpoint is named before its tokenizer is missed.
  KV8_RETURN_IF_ERROR(LoadModelSpec(tokenizer.model()));
  if (flags.token_ids_file) return ReadTokenIds(*flags.token_ids_file);
  KV8_ASSIGN_OR_RETURN(const auto loaded, tokenizer.Get());
  std::string given;
  if (flags.text) given = *flags.text;
  if (flags.text_file) {
    KV8_ASSIGN_OR_RETURN(given, ReadFile(*flags.text_file, kMaxTextBytes));
  }
  MarkedText text(std::move(given));
  if (flags.chat) {
    KV8_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Load(tokenizer.model()));
    KV8_ASSIGN_OR_RETURN(text, RenderUserMessage(chat, text.text()));
  }
  return Encode(*loaded, text, flags.allow_control_tokens,
                flags.text ? "--prompt" : flags.text_file->string());
}

}  // namespace kv8
