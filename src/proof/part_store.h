// Finished measurements of an unfinished run, on disk: a file each.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// A file NAME.json per measurement, in a directory of their own. Each holds everything that its
/// result depends on (its identity) and the hash of the result.
class PartStore {
 public:
  explicit PartStore(std::filesystem::path dir) : dir_(std::move(dir)) {}

  std::filesystem::path PathOf(const std::string& name) const { return dir_ / (name + ".json"); }
  /// nullopt when there is none. Errors: kMismatch, naming the first key of `identity` that
  /// differs; kCorrupt for a file that is not what was written. Both say how to start again.
  Result<std::optional<Json>> Load(const std::string& name, const Json& identity) const;
  /// Writes atomically. Errors: kIo.
  Result<void> Save(const std::string& name, const Json& identity, const Json& content) const;

 private:
  std::filesystem::path dir_;
};

}  // namespace kv8
