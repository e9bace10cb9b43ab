// The calibrated scales of one model, ready for use: real K = code * k, real V = code * v.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "family/checkpoint.h"
#include "kv8/error.h"
#include "scalepack/lineage.h"

namespace kv8 {

/// Scales of one QSA layer. Finite, positive, not 1.
struct KvScale {
  float k = 0;
  float v = 0;
};

/// Every scale an E4M3 run may use.
struct KvScales {
  std::vector<KvScale> target;   // one per QSA layer, in layer order
  std::optional<KvScale> draft;  // the MTP layer's
  std::string pack_id;           // artifact id, for logs and metrics
  LineageMatch lineage;          // how they belong to the checkpoint
};

/// Finds the scales for `checkpoint`: in `scale_pack` when given (all checks of a pack, and its
/// binding to this checkpoint), else in the checkpoint itself (a materialized view). Closed by
/// default; `lineage` says what a checkpoint may differ in. Errors: kNotFound, kMismatch or
/// kCorrupt, naming tensor, file and remedy, for a missing, non-finite, zero, negative, unit,
/// wrong-shape or half-pair scale, a negative-control pack, a wrong checkpoint; with `need_draft`
/// also for absent draft scales. There is no default scale.
Result<KvScales> LoadKvScales(const Checkpoint& checkpoint,
                              const std::optional<std::filesystem::path>& scale_pack,
                              bool need_draft, const LineageOptions& lineage = {});

/// What a checkpoint itself holds for one layer, for people to look at.
struct LayerScales {
  bool draft = false;
  int layer = 0;           // of the target, or 0 for the draft's layer
  std::optional<float> k;  // empty when absent or unusable
  std::optional<float> v;
  std::string file;  // name of the shard; empty when there is no scale tensor
};

/// One entry per QSA layer, target then draft. Never fails: whether the set may be used is what
/// LoadKvScales says.
std::vector<LayerScales> ListKvScales(const Checkpoint& checkpoint);

}  // namespace kv8
