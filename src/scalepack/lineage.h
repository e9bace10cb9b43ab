// Which checkpoint scales were measured on, and whether another one is that very checkpoint.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json_fields.h"
#include "checkpoint/weights_hash.h"
#include "family/checkpoint.h"
#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

/// What reports, packs and views state about their checkpoint.
struct Lineage {
  std::string index_sha256;       // of model.safetensors.index.json; empty without one
  std::string kv_weights_sha256;  // see Checkpoint; empty when another tool wrote it
  std::string weights_sha256;     // of all shards but scales, see WeightsSha256; empty as above
  Json config = Json::object();   // Checkpoint::config_fields; meaningful with weights_sha256

  bool operator==(const Lineage&) const = default;
};

/// Reads and writes all but the index, whose key has a name of its own in each file. Errors:
/// kCorrupt, naming the key; weights_sha256 and config stand together or not at all.
Result<void> ReadLineage(const JsonFields& fields, Lineage* lineage);
void WriteLineage(const Lineage& lineage, Json* json);

/// The lineage of a checkpoint; weights are hashed unless `weights_sha256` is their known hash.
/// Errors: those of WeightsSha256.
Result<Lineage> LineageOf(const Checkpoint& checkpoint, const WeightsHashOptions& hash,
                          std::string weights_sha256 = {});

/// How strict a comparison is.
struct LineageOptions {
  /// Differences are listed instead of refused.
  bool accept = false;
  /// `recorded_only`: the user vouches for weights whose hash is not recorded.
  WeightsHashOptions hash;
};

/// For the remedy of a command that has the flag.
inline constexpr std::string_view kAcceptLineage =
    "; --accept-lineage runs it all the same and says so in the output";

/// What a comparison found.
struct LineageMatch {
  WeightsBinding weights = WeightsBinding::kUnbound;
  std::vector<std::string> accepted;  // names of what differs
  std::string weights_sha256;         // of the checkpoint, where it was computed
};

/// Compares `checkpoint` with what was stated; `owner` says who stated it ("the pack is for"),
/// `where` in which file, `remedy` what to do. An empty `stated.index_sha256` is not compared. What
/// costs nothing is compared before any weight is read. Errors: kMismatch, naming what differs and
/// both values; those of WeightsSha256.
Result<LineageMatch> CheckLineage(const Lineage& stated, const Checkpoint& checkpoint,
                                  const LineageOptions& options, std::string_view owner,
                                  const std::string& where, std::string remedy);

}  // namespace kv8
