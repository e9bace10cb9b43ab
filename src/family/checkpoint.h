// A checkpoint directory: tensors and what its configuration means, validated against each other
// before the first is used.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/stored_weights.h"
#include "checkpoint/tensor_files.h"
#include "kv8/error.h"
#include "kv8/request.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// Tensor names are canonical: the text model's start with "model." ("model.language_model." in the
/// file is folded), the head is "lm_head.weight", the draft head's start with "mtp." ("model.mtp."
/// is folded). Move-only.
class Checkpoint : public TensorFiles {
 public:
  /// Opens `dir`: config.json, generation_config.json (optional) and the tensors; then the tensors
  /// of `overlays`, each of which may have a config.json. Errors: those of LoadModelSpec,
  /// TensorFiles::Open, FindWeights, CompareQuantization and the parsers; kMismatch for tensors
  /// that contradict config.json, and for configurations that contradict each other.
  static Result<Checkpoint> Open(const std::filesystem::path& dir,
                                 std::span<const std::filesystem::path> overlays = {});

  const ModelSpec& config() const { return config_; }
  /// Every value of config.json that was looked at, by its key; see ReadModelSpec.
  const Json& config_fields() const { return config_fields_; }
  /// Every matrix, by its name.
  const StoredWeights& weights() const { return weights_; }
  /// A matrix of this shape, a stack of several as one above another; what cannot stay in the file
  /// is kept in `copies`. Errors: those of TensorFiles::Get and of LoadWeight.
  Result<Weight> LoadWeight(const std::string& name, std::span<const std::int64_t> shape,
                            WeightCopies& copies) const;
  /// Error unless LoadWeight would find a matrix of this shape.
  Result<void> CheckWeight(const std::string& name, std::span<const std::int64_t> shape) const;
  /// Where configurations and tensors are known to disagree, for `kv8 inspect`; a line each.
  const std::vector<std::string>& disagreements() const { return disagreements_; }

  /// Ids that end generation, from generation_config.json; else the config's eos; may be empty.
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }
  /// What generation_config.json says beside that.
  const GenerationDefaults& generation() const { return generation_; }

  /// The layer prefix as written in the files, e.g. "model.language_model.layers.": owner of the
  /// most distinct layer ids among names that end in ".self_attn.k_proj.weight".
  const std::string& layer_prefix() const { return layer_prefix_; }

  /// SHA-256 over name, dtype, shape and bytes of every tensor that makes K and V (k_proj, v_proj,
  /// k_norm of the QSA layers, target then draft, sorted by name): tells fine-tunes apart whose
  /// index is the same. Computed on demand.
  std::string KvWeightsSha256() const;

 private:
  explicit Checkpoint(TensorFiles files) : TensorFiles(std::move(files)) {}
  Result<void> ReadGenerationConfig();
  Result<void> ReadOverlayConfig(const std::filesystem::path& dir) const;
  Result<void> ReadQuantization();

  ModelSpec config_;
  Json config_fields_ = Json::object();
  std::vector<TokenId> stop_ids_;
  GenerationDefaults generation_;
  std::string layer_prefix_;
  StoredWeights weights_;
  std::vector<std::optional<GptqZeros>> gptq_zeros_;  // by part
  std::vector<std::string> disagreements_;
};

}  // namespace kv8
