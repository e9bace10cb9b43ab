// The tensors of a checkpoint directory, by the names that kv8 uses for them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/weight_parts.h"
#include "kv8/error.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// What a model family calls its tensors.
struct TensorNaming {
  /// The one name kv8 uses for a tensor in a file; nullopt for what is no part of the model.
  std::optional<std::string> (*canonical)(std::string_view name) = nullptr;
  /// True for the name in a file of the draft's copy of the output head, which must equal the head.
  bool (*is_head_copy)(std::string_view name) = nullptr;
  /// Last parts of the names of tensors of 64-bit integers; all others hold floating point.
  std::span<const std::string_view> integer_leaves;
  /// What a tensor is replaced together with when another directory has it: a prefix of canonical
  /// names, or the whole name.
  std::string_view (*unit)(std::string_view canonical_name) = nullptr;
  /// Stem of the table that the matrix with this stem is a piece of; empty for other matrices.
  std::string_view (*table_of)(std::string_view stem) = nullptr;
};

/// One of the directories that a checkpoint is composed of.
struct CheckpointPart {
  std::filesystem::path dir;
  std::string index_sha256;  // of its index as written; empty without one
  std::size_t first_file = 0;
  std::size_t files = 0;
};

/// Owns the file maps; every view stays valid while it lives. Move-only.
class TensorFiles {
 public:
  /// Opens `dir`: model.safetensors.index.json as the allowlist of which tensor lives in which file
  /// (or a single model.safetensors without an index), all named shards. Then each of `overlays`,
  /// whose tensors replace those of the directories before it, unit by unit; one without an index
  /// has all its safetensors files. Errors: those of the parsers; kNotFound for a shard or a tensor
  /// that the index names; kCorrupt for a shard name that leaves the directory; kMismatch for two
  /// names that are one to the family; kUnsupported, by name, for types that nothing has.
  static Result<TensorFiles> Open(const std::filesystem::path& dir,
                                  std::span<const std::filesystem::path> overlays,
                                  const TensorNaming& naming);

  /// Of the checkpoint without overlays.
  const std::filesystem::path& dir() const { return parts_.front().dir; }
  /// `dir`, then the overlays.
  const std::vector<CheckpointPart>& parts() const { return parts_; }
  /// Which of parts() the tensor, which must exist, comes from.
  std::size_t PartOf(std::string_view canonical_name) const;
  /// nullptr when there is no such tensor.
  const TensorView* Find(std::string_view canonical_name) const;
  /// Errors: kNotFound; kMismatch when the shape differs from `shape`. Both name tensor, file and
  /// both shapes.
  Result<TensorView> Get(std::string_view canonical_name,
                         std::span<const std::int64_t> shape) const;
  /// Shard file that holds the tensor; for messages.
  std::filesystem::path FileOf(std::string_view canonical_name) const;
  /// Every shard that an index names, part by part, in the order in which it names them first.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Where a byte of the maps comes from; no file for other memory.
  struct Place {
    const SafetensorsFile* file = nullptr;
    std::string_view tensor;  // as written there; empty between tensors
  };
  Place PlaceOf(const std::byte* data) const;
  /// Asks the file system, without reading, whether every shard is the file that was opened: the
  /// maps show what others write into it. Errors: kIo for one that changed, was replaced or is
  /// gone.
  Result<void> CheckUnchanged() const;
  /// Canonical name -> view, sorted.
  const TensorMap& tensors() const { return tensors_; }
  /// Names of these tensors as the files write them.
  std::vector<std::string_view> written_names() const;
  /// The name of this tensor, which must exist, as the file writes it.
  std::string_view WrittenName(std::string_view canonical_name) const;

  /// SHA-256 of model.safetensors.index.json as written: the identity that published scale packs
  /// bind to (of the base; a materialized view has its own index). With overlays, that of one line
  /// "<SHA-256 of the index>\n" per part, "-" for an overlay without one. Empty when `dir` has no
  /// index.
  std::string index_sha256() const;

 private:
  /// Where a tensor comes from.
  struct Origin {
    std::size_t file = 0;  // index into files_
    std::string name;      // as written there
  };
  /// The tensors of one part.
  struct Tensors {
    TensorMap views;
    std::map<std::string, Origin, std::less<>> origins;
  };

  Result<Tensors> OpenPart(const std::filesystem::path& dir, bool overlay,
                           const TensorNaming& naming);
  Result<void> AddTensor(const std::string& name, std::size_t file, const TensorNaming& naming,
                         Tensors& part) const;
  Result<void> Compose(Tensors part, const TensorNaming& naming);

  std::vector<CheckpointPart> parts_;
  std::vector<SafetensorsFile> files_;
  TensorMap tensors_;
  std::map<std::string, Origin, std::less<>> origins_;
};

}  // namespace kv8
