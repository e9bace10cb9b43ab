// `kv8 bench`: how fast one configuration of a checkpoint is, or two beside each other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "kv8/engine.h"
#include "kv8/error.h"
#include "proof/verify.h"
#include "speed/conversations.h"

namespace kv8 {

/// A server that is measured in place of an engine.
struct ServedArm {
  std::string url;
  std::string model;  // as in /v1/models; empty: the first there
};

struct BenchOptions {
  /// What A and B share; its cache type, scales, lengths and sequences follow from the rest.
  EngineOptions engine;
  ArmSpec a;
  std::optional<ArmSpec> b;
  /// One or two: then no engine is made, and `engine.model` is the directory of the tokenizer.
  std::vector<ServedArm> servers;
  std::string api_key;  // of the servers
  std::vector<std::int64_t> contexts = {512, 2048};
  std::vector<std::int64_t> sequences = {1, 4};
  std::int64_t output = 64;  // tokens that are timed, of each sequence
  int repeats = 3;           // at least 3; one more warms up
  Conversations conversations;
  bool matrix = true;
  bool converse = false;
  bool structured = false;
  std::optional<std::filesystem::path> corpus;  // where prompts come from; random ids without it
  /// Of the prompts; absent: 1, and for servers another each time, as a server may remember.
  std::optional<std::uint64_t> seed;
  std::optional<std::int64_t> memory;  // that all engines may take; absent: the device's
};

/// Told what is measured next; false stops.
using BenchProgress = std::function<bool(std::uint64_t done, std::uint64_t all)>;

/// Runs the workloads, A and B in turn, and makes the report. Errors: those of Engine::Create, of
/// reading the corpus and the tokenizer, and of MeasureCell; kCancelled.
Result<Json> Bench(const BenchOptions& options, const BenchProgress& progress);

}  // namespace kv8
