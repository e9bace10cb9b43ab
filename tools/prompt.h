// Where a subcommand's tokens come from: text, a text file, or a file of ids.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"
#include "text/tokenizer.h"

namespace kv8 {

struct PromptFlags {
  std::optional<std::string> text;
  std::optional<std::filesystem::path> text_file;
  std::optional<std::filesystem::path> token_ids_file;
  bool chat = false;  // the text is what a user says
  bool allow_control_tokens = false;
};

/// The tokenizer of a checkpoint, read when it is first asked for, and once.
class ModelTokenizer {
 public:
  explicit ModelTokenizer(std::filesystem::path model) : model_(std::move(model)) {}

  const std::filesystem::path& model() const { return model_; }
  /// Errors: those of Tokenizer::Load.
  Result<std::shared_ptr<const Tokenizer>> Get();

 private:
  std::filesystem::path model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

/// Declares --allow-control-tokens.
void AddControlTokensFlag(CLI::App& app, bool& allow);

/// Declares --prompt, --prompt-file and --token-ids, exactly one of which must be given, and --chat
/// and --allow-control-tokens for the first two.
void AddPromptFlags(CLI::App& app, PromptFlags& flags);

/// The ids they name; text goes through the tokenizer, as it is or, with --chat, as a user's
/// message in the model's chat template. Errors: those of ReadFile, Tokenizer and ChatTemplate;
/// kCorrupt for a file that is not a JSON array of non-negative 32-bit integers.
Result<std::vector<TokenId>> ReadPrompt(const PromptFlags& flags, ModelTokenizer& tokenizer);

}  // namespace kv8
