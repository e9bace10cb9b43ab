#include "prompt.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/json_fields.h"
#include "checkpoint/model_directory.h"
#include "command.h"
#include "conversation.h"
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
Result<std::vector<TokenId>> Encode(const Tokenizer& tokenizer, std::string_view text,
                                    std::string where) {
  auto ids = tokenizer.Encode(text);
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
}

Result<std::vector<TokenId>> ReadPrompt(const PromptFlags& flags,
                                        const std::filesystem::path& model) {
  // A wrong directory or another family's checkpoint is named before its tokenizer is missed.
  KV8_RETURN_IF_ERROR(LoadModelSpec(model));
  if (flags.token_ids_file) return ReadTokenIds(*flags.token_ids_file);
  KV8_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(model / "tokenizer.json"));
  std::string text;
  if (flags.text) text = *flags.text;
  if (flags.text_file) {
    KV8_ASSIGN_OR_RETURN(text, ReadFile(*flags.text_file, kMaxTextBytes));
  }
  if (flags.chat) {
    KV8_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Load(model));
    KV8_ASSIGN_OR_RETURN(text, RenderUserMessage(chat, text));
  }
  return Encode(tokenizer, text, flags.text ? "--prompt" : flags.text_file->string());
}

}  // namespace kv8
