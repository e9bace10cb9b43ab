// Where a subcommand's tokens come from: text, a text file, or a file of ids.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

struct PromptFlags {
  std::optional<std::string> text;
  std::optional<std::filesystem::path> text_file;
  std::optional<std::filesystem::path> token_ids_file;
  bool chat = false;  // the text is what a user says
};

/// Declares --prompt, --prompt-file and --token-ids, exactly one of which must be given, and --chat
/// for the first two.
void AddPromptFlags(CLI::App& app, PromptFlags& flags);

/// The ids they name; text goes through the tokenizer of `model`, as it is or, with --chat, as a
/// user's message in its chat template. Errors: those of ReadFile, Tokenizer and ChatTemplate;
/// kCorrupt for a file that is not a JSON array of non-negative 32-bit integers.
Result<std::vector<TokenId>> ReadPrompt(const PromptFlags& flags,
                                        const std::filesystem::path& model);

}  // namespace kv8
