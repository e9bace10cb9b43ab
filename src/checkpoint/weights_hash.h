// One SHA-256 for all weights of a checkpoint: a hash tree over its shards, computed once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "kv8/error.h"

namespace kv8 {

/// Bytes of a shard that one leaf of the tree covers; the last leaf may be shorter.
inline constexpr std::uint64_t kHashLeafBytes = std::uint64_t{64} << 20;

/// Told the bytes read so far and in all, by the thread that asked for the hash. False: stop.
using HashProgress = std::function<bool(std::uint64_t done, std::uint64_t all)>;

struct WeightsHashOptions {
  bool recorded_only = false;  // never read a shard whose hash is not recorded
  int threads = 0;             // 0: one per hardware thread
  HashProgress progress;       // may be empty; not called when everything is recorded
};

/// The hash of `shards`, which stay open:
///   leaf(i)  = SHA-256 of bytes [i, i + 1) * kHashLeafBytes of the shard
///   shard    = SHA-256 of "<size>\n" and one line "<leaf(i)>\n" per leaf
///   result   = SHA-256 of one line "<shard>  <file name>\n" per shard, by name
/// all numbers decimal, all hashes in lower-case hex. The hash of a shard is recorded
/// (weights_record.h) and used again while the file's stamp stands. nullopt when `recorded_only`
/// and some shard has no record. Errors: kMismatch for a shard that changed since it was opened;
/// kCancelled; kIo.
Result<std::optional<std::string>> WeightsSha256(const std::vector<const SafetensorsFile*>& shards,
                                                 const WeightsHashOptions& options);

}  // namespace kv8
