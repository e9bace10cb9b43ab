// The configuration of a model that is to be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

struct Dimensions {
  /// "released", "tiny" (the bundled model's), or the path of a config.json.
  std::string source = "tiny";
  std::optional<int> layers;
  std::optional<std::int64_t> table_rows;  // about, of each n-gram table
  bool draft = true;
};

/// A config.json without quantization: that of `dimensions.source`, changed as they say. Vision is
/// left out. Errors: those of ReadJsonFile and ReadModelSpec; kInvalidArgument, by flag, for what
/// the configuration does not have.
Result<Json> MakeConfig(const Dimensions& dimensions);

/// The part of a configuration that is about text.
Json& TextConfig(Json& config);

}  // namespace kv8
