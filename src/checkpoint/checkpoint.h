// A checkpoint directory: configuration and tensors, all validated before the first is used.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "kv8/error.h"
#include "kv8/request.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Tensor names are canonical: the text model's start with "model." ("model.language_model." in the
/// file is folded), the head is "lm_head.weight", the draft head's start with "mtp." ("model.mtp."
/// is folded). Owns the file maps; every view stays valid while it lives. Move-only.
class Checkpoint {
 public:
  /// Opens `dir`: config.json, generation_config.json (optional), model.safetensors.index.json as
  /// the allowlist of which tensor lives in which file (or a single model.safetensors without an
  /// index), all named shards. Errors: those of the parsers; kNotFound for a shard or a tensor that
  /// the index names; kCorrupt for a shard name that leaves the directory; kMismatch for two names
  /// that fold to one; kUnsupported, by name, for quantised tensors.
  static Result<Checkpoint> Open(const std::filesystem::path& dir);

  const std::filesystem::path& dir() const { return dir_; }
  const ModelSpec& config() const { return config_; }
  /// Ids that end generation, from generation_config.json; else the config's eos; may be empty.
  const std::vector<TokenId>& stop_ids() const { return stop_ids_; }
  /// What generation_config.json says beside that.
  const GenerationDefaults& generation() const { return generation_; }

  /// nullptr when there is no such tensor.
  const TensorView* Find(std::string_view canonical_name) const;
  /// Errors: kNotFound; kMismatch when the shape differs from `shape`. Both name tensor, file and
  /// both shapes.
  Result<TensorView> Get(std::string_view canonical_name,
                         std::span<const std::int64_t> shape) const;
  /// Shard file that holds the tensor; for messages.
  std::filesystem::path FileOf(std::string_view canonical_name) const;
  /// Every value of config.json that was looked at, by its key; see ReadModelSpec.
  const Json& config_fields() const { return config_fields_; }
  /// Every shard that the index names, in the order in which it names them first.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Asks the file system, without reading, whether every shard is the file that was opened: the
  /// maps show what others write into it. Errors: kIo for one that changed, was replaced or is
  /// gone.
  Result<void> CheckUnchanged() const;
  /// Canonical name -> view, sorted.
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }

  /// The layer prefix as written in the files, e.g. "model.language_model.layers.": owner of the
  /// most distinct layer ids among names that end in ".self_attn.k_proj.weight".
  const std::string& layer_prefix() const { return layer_prefix_; }

  /// SHA-256 of model.safetensors.index.json as written: the identity that published scale packs
  /// bind to (of the base; a materialized view has its own index). Empty without an index.
  const std::string& index_sha256() const { return index_sha256_; }
  /// SHA-256 over name, dtype, shape and bytes of every tensor that makes K and V (k_proj, v_proj,
  /// k_norm of the QSA layers, target then draft, sorted by name): tells fine-tunes apart whose
  /// index is the same. Computed on demand.
  std::string KvWeightsSha256() const;

 private:
  /// Where a tensor comes from.
  struct Origin {
    std::size_t file = 0;  // index into files_
    std::string name;      // as written there
  };

  Checkpoint() = default;
  Result<void> ReadConfigs();
  Result<void> ReadTensors();
  Result<void> AddTensor(const std::string& name, std::size_t file);

  std::filesystem::path dir_;
  ModelSpec config_;
  Json config_fields_ = Json::object();
  std::vector<TokenId> stop_ids_;
  GenerationDefaults generation_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, Origin, std::less<>> origins_;
  std::string layer_prefix_;
  std::string index_sha256_;
};

}  // namespace kv8
