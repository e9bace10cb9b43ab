// `kv8 verify`: two configurations of one checkpoint, measured on the same items and compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "client/http_client.h"
#include "kv8/engine.h"
#include "kv8/error.h"
#include "proof/gates.h"

namespace kv8 {

/// A model that a server runs, which must have the tokenizer of the checkpoint.
struct ServerSpec {
  std::string url;
  std::string model;  // empty: the only one that it lists
  ClientOptions client;
};

/// What A and B may differ in.
struct ArmSpec {
  KvDType dtype = KvDType::kFp16;
  std::optional<std::filesystem::path> scale_pack;  // only with kE4M3
  std::optional<ServerSpec> server;                 // then both others mean nothing
};

/// Frames, such as declarations of tools, are less of a corpus than a text that is in it twice.
inline constexpr double kDefaultOverlap = 0.01;

struct VerifyOptions {
  /// What A and B share; its cache type and scales are ignored. Its length follows from the corpus.
  EngineOptions engine;
  ArmSpec a;
  ArmSpec b;
  std::filesystem::path corpus;
  std::optional<std::filesystem::path> calibration_corpus;
  double max_overlap = kDefaultOverlap;        // share of shingles that both corpora may have
  std::optional<std::filesystem::path> gates;  // DefaultGatesText without it
  std::filesystem::path output_dir;            // made when it does not exist
  std::uint64_t seed = 1;                      // of the bootstrap
  bool restart = false;                        // forget finished measurements
};

/// Tokens done and in all. False stops; finished measurements stay for the next run.
using VerifyProgress = std::function<bool(std::uint64_t done, std::uint64_t all)>;

struct VerifyResult {
  Json report;                        // as in report.json
  std::vector<std::string> failures;  // gates that did not pass, arms that did not run
};

/// Runs A, A again and B over the corpus, and writes report.json and report.html into the output
/// directory. Each measurement is kept there once it is finished. An arm that fails leaves the
/// others their results; the report says so. Weights are mapped once by the system, and one engine
/// exists at a time.
/// Errors: those of reading corpus, tokenizer, gates and checkpoint; kMismatch for measurements of
/// another run in the directory; kInvalidArgument for corpora that overlap; kCancelled; kIo.
Result<VerifyResult> Verify(const VerifyOptions& options, const VerifyProgress& progress);

}  // namespace kv8
