// `kv8 tokenize`: token ids of a text, as a checkpoint's tokenizer makes them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/json_writer.h"
#include "checkpoint/model_directory.h"
#include "commands.h"
#include "conversation.h"
#include "output.h"
#include "printable.h"
#include "prompt.h"
#include "text/tokenizer.h"

namespace kv8 {
namespace {

struct TokenizeOptions {
  std::filesystem::path dir;
  std::string text;
  std::filesystem::path file;
  std::filesystem::path batch;
  bool chat = false;
  bool allow_control_tokens = false;
  bool json = false;
};

/// The members of a result, without their object. Written as text: of a long one a document would
/// take a hundred bytes per token.
void WriteTokens(JsonWriter& json, const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  json.Key("token_ids").BeginArray();
  for (const TokenId id : ids) json.Integer(id);
  json.EndArray().Key("tokens").BeginArray();
  for (const TokenId id : ids) json.String(tokenizer.Spelling(id));
  json.EndArray();
}

std::string ToText(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids)
    out += fmt::format("{}\t{}\n", id, Printable(tokenizer.Spelling(id)));
  return out;
}

Result<std::vector<TokenId>> ReadTokenIds(const Json& value) {
  std::vector<TokenId> ids;
  for (const Json& item : value) {
    const auto id = AsTokenId(item);
    if (!id) {
      return Error{Code::kCorrupt, fmt::format("\"token_ids\" holds {}", JsonText(item)), "",
                   "give token ids, integers from 0"};
    }
    ids.push_back(*id);
  }
  return ids;
}

/// A rendered conversation, or text as it is.
Result<std::vector<TokenId>> Encode(const Tokenizer& tokenizer, const MarkedText& text,
                                    bool allow_control_tokens) {
  return allow_control_tokens ? tokenizer.Encode(text.text()) : tokenizer.Encode(text);
}

/// One line of a batch: {"text": T} is encoded, {"token_ids": [...]} is decoded.
Result<void> RunLine(const Tokenizer& tokenizer, std::string_view line, JsonWriter& json) {
  KV8_ASSIGN_OR_RETURN(const Json request, ParseJson(line, "line"));
  const bool is_single = request.is_object() && request.size() == 1;
  if (is_single && request.contains("text") && request["text"].is_string()) {
    KV8_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(request["text"].get<std::string>()));
    WriteTokens(json, tokenizer, ids);
    return {};
  }
  if (is_single && request.contains("token_ids") && request["token_ids"].is_array()) {
    KV8_ASSIGN_OR_RETURN(const auto ids, ReadTokenIds(request["token_ids"]));
    KV8_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(ids));
    json.Key("text").String(text);
    return {};
  }
  return Error{Code::kCorrupt, R"(is neither {"text": "..."} nor {"token_ids": [...]})", "", ""};
}

/// One line of a batch with --chat: a conversation.
Result<void> RunChatLine(const Tokenizer& tokenizer, const ChatTemplate& chat,
                         bool allow_control_tokens, std::string_view line, JsonWriter& json) {
  KV8_ASSIGN_OR_RETURN(const MarkedText text, RenderConversation(chat, line, "line"));
  KV8_ASSIGN_OR_RETURN(const auto ids, Encode(tokenizer, text, allow_control_tokens));
  WriteTokens(json, tokenizer, ids);
  json.Key("text").String(text.text());
  return {};
}

/// `chat` null: without --chat.
Result<void> RunBatch(const Tokenizer& tokenizer, const ChatTemplate* chat,
                      const TokenizeOptions& options) {
  KV8_ASSIGN_OR_RETURN(const std::string content, ReadFile(options.batch, kMaxTextBytes));
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("results").BeginArray();
  int number = 1;
  for (std::size_t at = 0; at < content.size(); ++number) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    const std::string_view line = std::string_view(content).substr(at, end - at);
    json.BeginObject();
    auto result = chat == nullptr
                      ? RunLine(tokenizer, line, json)
                      : RunChatLine(tokenizer, *chat, options.allow_control_tokens, line, json);
    if (!result.ok()) {
      Error error = std::move(result).error();
      // Where in the template it is the template's cause that says.
      if (chat != nullptr) error.what = fmt::format("{}: {}", error.where, error.what);
      error.where = fmt::format("{}: line {}", options.batch.string(), number);
      return error;
    }
    json.EndObject();
    at = end + 1;
  }
  json.EndArray().EndObject();
  return WriteText(out + "\n");
}

/// The text that --text or --file gives, rendered if --chat is given.
Result<MarkedText> InputText(const TokenizeOptions& options, const ChatTemplate* chat) {
  if (options.file.empty()) {
    return chat == nullptr ? MarkedText(options.text) : RenderUserMessage(*chat, options.text);
  }
  KV8_ASSIGN_OR_RETURN(std::string text, ReadFile(options.file, kMaxTextBytes));
  if (chat == nullptr) return MarkedText(std::move(text));
  return RenderConversation(*chat, text, options.file.string());
}

Result<void> Tokenize(const TokenizeOptions& options) {
  KV8_RETURN_IF_ERROR(CheckModelDirectory(options.dir));
  KV8_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(options.dir / "tokenizer.json"));
  std::optional<ChatTemplate> chat;
  if (options.chat) {
    KV8_ASSIGN_OR_RETURN(chat, ChatTemplate::Load(options.dir));
  }
  const ChatTemplate* used = chat ? &*chat : nullptr;
  if (!options.batch.empty()) return RunBatch(tokenizer, used, options);
  KV8_ASSIGN_OR_RETURN(const MarkedText text, InputText(options, used));
  auto ids = Encode(tokenizer, text, options.allow_control_tokens);
  if (!ids.ok()) {
    Error error = std::move(ids).error();
    error.where = options.file.empty() ? "--text" : options.file.string();
    return error;
  }
  if (!options.json) {
    if (chat) KV8_RETURN_IF_ERROR(WriteText(text.text() + "\n"));
    return WriteLines(ToText(tokenizer, *ids));
  }
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  WriteTokens(json, tokenizer, *ids);
  if (chat) json.Key("text").String(text.text());
  json.EndObject();
  return WriteText(out += "\n");
}

}  // namespace

CommandRun SetUpTokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  app.add_option("dir", options->dir, "Directory with tokenizer.json")
      ->required()
      ->check(NotEmpty());
  CLI::Option_group* input = app.add_option_group("Input", "What to tokenize");
  input->add_option("--text", options->text, "This text");
  input->add_option("--file", options->file, "The text of this file, byte for byte")
      ->check(NotEmpty());
  input
      ->add_option("--batch", options->batch,
                   R"(JSON Lines: {"text": T} to encode, {"token_ids": [...]} to decode; )"
                   "always prints JSON")
      ->check(NotEmpty());
  input->require_option(1);
  app.add_flag("--chat", options->chat,
               "Show a conversation as the checkpoint's chat template renders it: --text is a "
               "user's message; --file and each line of --batch are messages in JSON");
  AddControlTokensFlag(app, options->allow_control_tokens);
  AddJsonFlag(app, options->json);
  return [options] { return Tokenize(*options); };
}

}  // namespace kv8
