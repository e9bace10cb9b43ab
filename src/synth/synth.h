// Writes a checkpoint of any size and format: random weights, or another checkpoint's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "kv8/error.h"
#include "synth/dimensions.h"
#include "synth/formats.h"
#include "synth/weight_files.h"

namespace kv8 {

struct SynthRequest {
  std::filesystem::path output;               // must not exist
  std::optional<std::filesystem::path> from;  // its weights, dimensions and tokenizer are taken
  Dimensions dimensions;                      // without `from`, all; with it, layers and draft
  SynthFormats formats;
  std::uint64_t shard_bytes = 5'000'000'000;
  bool sparse = false;     // most of the n-gram table is a hole of its files
  std::uint64_t seed = 0;  // of random weights
  int threads = 0;         // 0: one per hardware thread; they do not change a byte
  WriteProgress progress;
};

struct SynthSummary {
  /// A part of the model.
  struct Module {
    std::int64_t weights = 0;
    std::int64_t bytes = 0;
  };
  std::map<std::string, Module, std::less<>> modules;
  std::int64_t tensors = 0;
  std::int64_t files = 0;  // with weights
  std::int64_t bytes = 0;  // of tensors, holes too
  std::int64_t hole_bytes = 0;
};

/// Publishes the checkpoint whole or not at all. What --from holds beside weights of the model
/// (K/V scales, vision) is left out.
/// Errors: those of Checkpoint::Open, MakeConfig, CheckFormats, ValueSource, CheckOutsideCheckpoint
/// and StagedDirectory; kInvalidArgument, by flag; kResourceExhausted before a byte is written when
/// the disk has not the room; kCancelled.
Result<SynthSummary> Synthesise(const SynthRequest& request);

}  // namespace kv8
