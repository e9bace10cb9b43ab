// The files of a checkpoint that are not about weights.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

struct TextFile {
  std::string name;
  std::string content;
};

/// Tokenizer, chat template and generation_config.json of the directory, those that it has; of the
/// bundled model without one. The bundled tokenizer is cut where a vocabulary is smaller.
/// Errors: those of ReadFile; kNotFound without a tokenizer.json; kUnsupported for a vocabulary
/// that cannot hold every byte.
Result<std::vector<TextFile>> TokenizerFiles(const std::optional<std::filesystem::path>& from,
                                             int vocab);

/// Gives `config` the ids of special tokens that the bundled tokenizer has.
void SetBundledTokenIds(Json& config);

}  // namespace kv8
