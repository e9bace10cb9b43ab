// What a user named as a checkpoint, looked at before anything in it is read.
#pragma once

#include <filesystem>

#include "checkpoint/model_config.h"
#include "kv8/error.h"

namespace kv8 {

/// Refuses what is no checkpoint directory, and says what it is instead: nothing, a name of a model
/// hub, a file (GGUF or of a checkpoint), a directory of GGUF files.
/// Errors: kNotFound, kInvalidArgument, kUnsupported.
Result<void> CheckModelDirectory(const std::filesystem::path& dir);

/// config.json of a checkpoint: with its directory, what a wrong path fails by first. `fields` as
/// in ReadModelSpec. Errors: those of CheckModelDirectory, ReadJsonFile and ReadModelSpec.
Result<ModelSpec> LoadModelSpec(const std::filesystem::path& dir, Json* fields = nullptr);

}  // namespace kv8
