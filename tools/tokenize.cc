// `kv8 tokenize`: token ids of a text, as a checkpoint's tokenizer makes them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_fields.h"
#include "commands.h"
#include "output.h"
#include "text/tokenizer.h"

namespace kv8 {
namespace {

struct TokenizeOptions {
  std::filesystem::path dir;
  std::string text;
  std::filesystem::path file;
  std::filesystem::path batch;
  bool json = false;
};

Json ToJson(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json tokens = Json::array();
  for (const TokenId id : ids) tokens.push_back(tokenizer.Spelling(id));
  return {{"token_ids", ids}, {"tokens", std::move(tokens)}};
}

std::string ToText(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string out;
  for (const TokenId id : ids) out += fmt::format("{}\t{}\n", id, tokenizer.Spelling(id));
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

/// One line of a batch: {"text": T} is encoded, {"token_ids": [...]} is decoded.
Result<Json> RunLine(const Tokenizer& tokenizer, std::string_view line) {
  KV8_ASSIGN_OR_RETURN(const Json request, ParseJson(line, "line"));
  const bool is_single = request.is_object() && request.size() == 1;
  if (is_single && request.contains("text") && request["text"].is_string()) {
    KV8_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(request["text"].get<std::string>()));
    return ToJson(tokenizer, ids);
  }
  if (is_single && request.contains("token_ids") && request["token_ids"].is_array()) {
    KV8_ASSIGN_OR_RETURN(const auto ids, ReadTokenIds(request["token_ids"]));
    KV8_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(ids));
    return Json{{"text", text}};
  }
  return Error{Code::kCorrupt, R"(is neither {"text": "..."} nor {"token_ids": [...]})", "", ""};
}

Result<void> RunBatch(const Tokenizer& tokenizer, const std::filesystem::path& path) {
  KV8_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxTextBytes));
  Json results = Json::array();
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    auto result = RunLine(tokenizer, std::string_view(content).substr(at, end - at));
    if (!result.ok()) {
      Error error = std::move(result).error();
      error.where = fmt::format("{}: line {}", path.string(), results.size() + 1);
      return error;
    }
    results.push_back(std::move(*result));
    at = end + 1;
  }
  return WriteJson({{"results", std::move(results)}});
}

Result<void> Tokenize(const TokenizeOptions& options) {
  KV8_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(options.dir / "tokenizer.json"));
  if (!options.batch.empty()) return RunBatch(tokenizer, options.batch);
  std::string text = options.text;
  if (!options.file.empty()) {
    KV8_ASSIGN_OR_RETURN(text, ReadFile(options.file, kMaxTextBytes));
  }
  auto ids = tokenizer.Encode(text);
  if (!ids.ok()) {
    Error error = std::move(ids).error();
    error.where = options.file.empty() ? "--text" : options.file.string();
    return error;
  }
  return options.json ? WriteJson(ToJson(tokenizer, *ids)) : WriteText(ToText(tokenizer, *ids));
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
  AddJsonFlag(app, options->json);
  return [options] { return Tokenize(*options); };
}

}  // namespace kv8
