// A view of a checkpoint that carries the scales of a pack: links, two small shards, a new index.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/staged_directory.h"
#include "kv8/error.h"
#include "scalepack/lineage.h"

namespace kv8 {

struct MaterializeRequest {
  std::filesystem::path base_checkpoint;
  std::filesystem::path pack_dir;
  std::filesystem::path output_dir;                   // must not exist
  std::optional<std::filesystem::path> draft_report;  // for a pack without draft scales
  StepHook hook;                                      // see StagedDirectory
  LineageOptions lineage;  // what the base may differ in; its weights are always hashed
};

struct MaterializeSummary {
  std::string artifact_id;
  std::size_t target_scales = 0;
  std::size_t draft_scales = 0;
  std::string merged_index_sha256;
  LineageMatch lineage;
};

/// Writes the view; all or nothing appears, and the base is only read. It must stay where it is,
/// because the view links to it. Without draft scales the view serves runs without speculation.
/// Errors: those of Checkpoint::Open, ReadScalePack, BindScalePack and StagedDirectory;
/// kInvalidArgument when the output lies inside base or pack, or when pack and report both have
/// draft scales; kAlreadyExists, listing the names, for a base that has scales.
Result<MaterializeSummary> Materialize(const MaterializeRequest& request);

}  // namespace kv8
