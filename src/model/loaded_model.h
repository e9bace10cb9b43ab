// A checkpoint, its weights and the scales a run needs, opened and checked together.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "family/checkpoint.h"
#include "kv8/error.h"
#include "kv8/types.h"
#include "kvcache/kv_cache.h"
#include "scalepack/lineage.h"
#include "tensor/model_weights.h"

namespace kv8 {

/// What to open.
struct ModelSource {
  std::filesystem::path dir;                        // checkpoint or materialized view
  std::vector<std::filesystem::path> overlays;      // see Checkpoint::Open
  std::optional<std::filesystem::path> scale_pack;  // only with an E4M3 cache
  KvDType kv_dtype = KvDType::kFp16;
  /// The MTP head runs too; nullopt: where the checkpoint has one.
  std::optional<bool> with_draft = false;
  LineageOptions lineage;  // with an E4M3 cache
};

/// Owns everything that outlives a run. Movable.
class LoadedModel {
 public:
  /// With kE4M3 every layer that stores K/V must have a calibrated scale, or this fails. Errors:
  /// those of Checkpoint::Open, BindModel, LoadKvScales; kInvalidArgument for a draft without an
  /// MTP head and for a scale pack without kE4M3.
  static Result<LoadedModel> Open(const ModelSource& source);

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const Model& model() const { return *model_; }
  bool with_draft() const { return with_draft_; }
  /// One per K/V layer with kE4M3, else empty.
  const std::vector<StoreScales>& scales() const { return scales_; }
  /// Artifact id of the scales in use; empty without kE4M3.
  const std::string& scale_pack_id() const { return scale_pack_id_; }
  /// How these scales belong to the checkpoint; kNone without kE4M3.
  const LineageMatch& lineage() const { return lineage_; }
  /// Names weights, configuration and scales: 64 hex digits. Errors: those of WeightsSha256.
  Result<std::string> Identity(const WeightsHashOptions& hash) const;

 private:
  LoadedModel() = default;

  std::unique_ptr<const Checkpoint> checkpoint_;
  std::unique_ptr<const Model> model_;
  bool with_draft_ = false;
  std::vector<StoreScales> scales_;
  std::string scale_pack_id_;
  LineageMatch lineage_{.weights = WeightsBinding::kNone, .accepted = {}};
};

}  // namespace kv8
