// What config.json says about a model of the family, validated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "kv8/types.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// Reads the nested (`text_config`) or flat form; accepts every spelling of `layer_types` in use.
/// Errors: kUnsupported for a value kv8 does not implement, kCorrupt for a missing or wrongly typed
/// key, kMismatch for values that contradict each other; each names the key. `fields`, unless null,
/// gets every value that was looked at, by its key ("rms_norm_eps", "rope_parameters.rope_theta"):
/// what the forward pass depends on beside the weights.
Result<ModelSpec> ReadModelSpec(const Json& config, std::string_view where, Json* fields = nullptr);

/// A config.json by itself. Errors: those of ReadJsonFile and ReadModelSpec.
Result<ModelSpec> LoadModelSpecFile(const std::filesystem::path& path, Json* fields = nullptr);

/// config.json of a checkpoint: with its directory, what a wrong path fails by first.
/// Errors: those of CheckModelDirectory and LoadModelSpecFile.
Result<ModelSpec> LoadModelSpec(const std::filesystem::path& dir, Json* fields = nullptr);

}  // namespace kv8
