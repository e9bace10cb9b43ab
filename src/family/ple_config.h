// The n-gram memory's part of config.json.
#pragma once

#include <optional>

#include "checkpoint/config_reader.h"
#include "family/model_config.h"

namespace kv8 {

/// nullopt when the model has no PLE layer. Errors go to `reader`.
std::optional<PleConfig> ReadPleConfig(ConfigReader& reader, int layers);

}  // namespace kv8
