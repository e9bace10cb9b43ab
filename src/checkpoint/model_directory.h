// What a user named as a checkpoint, looked at before anything in it is read.
#pragma once

#include <filesystem>

#include "kv8/error.h"

namespace kv8 {

/// Its configuration's name.
inline constexpr const char* kConfigFile = "config.json";

/// Refuses what is no checkpoint directory, and says what it is instead: nothing, a name of a model
/// hub, a file (GGUF or of a checkpoint), a directory of GGUF files.
/// Errors: kNotFound, kInvalidArgument, kUnsupported.
Result<void> CheckModelDirectory(const std::filesystem::path& dir);

}  // namespace kv8
