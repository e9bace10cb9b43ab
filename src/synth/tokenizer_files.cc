#include "synth/tokenizer_files.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/file.h"
#include "synth/bundled.h"
#include "synth/dimensions.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = 256'000'000;

struct Known {
  const char* name;
  BundledFile bundled;
};

constexpr std::array kFiles = {
    Known{"tokenizer.json", BundledFile::kTokenizer},
    Known{"tokenizer_config.json", BundledFile::kTokenizerConfig},
    Known{"generation_config.json", BundledFile::kGenerationConfig},
    Known{"chat_template.jinja", BundledFile::kChatTemplate},
};

/// Removes every token from id `vocab` on, and the merges that make one or need one. Tokens of one
/// byte have the lowest ids but for the added ones, so that any text can still be written.
std::string CutTokenizer(std::string_view text, int vocab) {
  Json tokenizer = Json::parse(text);
  Json& tokens = tokenizer["model"]["vocab"];
  Json kept = Json::object(), merges = Json::array();
  for (const auto& [token, id] : tokens.items()) {
    if (id.get<int>() < vocab) kept[token] = id;
  }
  for (const Json& merge : tokenizer["model"]["merges"]) {
    const auto left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
    if (kept.contains(left) && kept.contains(right) && kept.contains(left + right)) {
      merges.push_back(merge);
    }
  }
  tokens = std::move(kept);
  tokenizer["model"]["merges"] = std::move(merges);
  return DumpJson(tokenizer);
}

Result<std::vector<TextFile>> BundledFiles(int vocab) {
  const Json tokenizer = Json::parse(BundledText(BundledFile::kTokenizer));
  const int tokens = static_cast<int>(tokenizer["model"]["vocab"].size());
  const int needed = static_cast<int>(tokenizer["added_tokens"].size()) + 256;
  if (vocab < needed) {
    return Error{Code::kUnsupported,
                 fmt::format("vocab_size is {}; the bundled tokenizer needs {}", vocab, needed),
                 "--dims", "raise vocab_size"};
  }
  std::vector<TextFile> files;
  for (const auto& [name, bundled] : kFiles) {
    files.push_back({name, std::string(BundledText(bundled))});
  }
  if (vocab < tokens) files[0].content = CutTokenizer(files[0].content, vocab);
  return files;
}

}  // namespace

Result<std::vector<TextFile>> TokenizerFiles(const std::optional<fs::path>& from, int vocab) {
  if (!from) return BundledFiles(vocab);
  std::vector<TextFile> files;
  for (const auto& [name, bundled] : kFiles) {
    if (bundled != BundledFile::kTokenizer && !PathExists(*from / name)) continue;
    KV8_ASSIGN_OR_RETURN(std::string content, ReadFile(*from / name, kMaxFileBytes));
    files.push_back({name, std::move(content)});
  }
  return files;
}

void SetBundledTokenIds(Json& config) {
  Json bundled = Json::parse(BundledText(BundledFile::kConfig));
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    TextConfig(config)[key] = TextConfig(bundled)[key];
  }
  for (const char* key :
       {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"}) {
    config[key] = bundled[key];
  }
}

}  // namespace kv8
