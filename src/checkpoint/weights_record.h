// Hashes of weight files that were computed before, each valid while its file's stamp stands.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// One record. It is a statement about this machine's file, so it lies in the user's own cache
/// directory and never in a pack, a view or a checkpoint, which travel and may be read-only.
struct WeightsRecord {
  FileStamp stamp;
  std::string sha256;
};

/// $XDG_CACHE_HOME/kv8/weights, or ~/.cache/kv8/weights; empty when neither is an absolute path.
std::filesystem::path WeightsRecordDir();

/// Errors: kCorrupt, naming file and key.
Result<WeightsRecord> ParseWeightsRecord(const Json& json, std::string_view where);
Json WeightsRecordToJson(const WeightsRecord& record);

/// The recorded hash of the file with this stamp. nullopt without a record, and for one that
/// others could have written or that says anything else: then the file is read again.
std::optional<std::string> FindWeightsRecord(const FileStamp& stamp);

/// Keeps a hash for later runs. Not kept for a file that was written within the last
/// seconds: a write in the same tick of the file system's clock would leave its stamp as it is.
/// A record that cannot be written costs time later and nothing else, so there is no error.
void KeepWeightsRecord(const FileStamp& stamp, const std::string& sha256);

}  // namespace kv8
