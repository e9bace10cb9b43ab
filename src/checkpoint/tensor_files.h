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
};

/// Owns the file maps; every view stays valid while it lives. Move-only.
class TensorFiles {
 public:
  /// Opens `dir`: model.safetensors.index.json as the allowlist of which tensor lives in which file
  /// (or a single model.safetensors without an index), all named shards. Errors: those of the
  /// parsers; kNotFound for a shard or a tensor that the index names; kCorrupt for a shard name
  /// that leaves the directory; kMismatch for two names that are one to the family; kUnsupported,
  /// by name, for quantised tensors.
  static Result<TensorFiles> Open(const std::filesystem::path& dir, const TensorNaming& naming);

  const std::filesystem::path& dir() const { return dir_; }
  /// nullptr when there is no such tensor.
  const TensorView* Find(std::string_view canonical_name) const;
  /// Errors: kNotFound; kMismatch when the shape differs from `shape`. Both name tensor, file and
  /// both shapes.
  Result<TensorView> Get(std::string_view canonical_name,
                         std::span<const std::int64_t> shape) const;
  /// Shard file that holds the tensor; for messages.
  std::filesystem::path FileOf(std::string_view canonical_name) const;
  /// Every shard that the index names, in the order in which it names them first.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Asks the file system, without reading, whether every shard is the file that was opened: the
  /// maps show what others write into it. Errors: kIo for one that changed, was replaced or is
  /// gone.
  Result<void> CheckUnchanged() const;
  /// Canonical name -> view, sorted.
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  /// Names of these tensors as the files write them.
  std::vector<std::string_view> written_names() const;

  /// SHA-256 of model.safetensors.index.json as written: the identity that published scale packs
  /// bind to (of the base; a materialized view has its own index). Empty without an index.
  const std::string& index_sha256() const { return index_sha256_; }

 private:
  /// Where a tensor comes from.
  struct Origin {
    std::size_t file = 0;  // index into files_
    std::string name;      // as written there
  };

  Result<void> AddTensor(const std::string& name, std::size_t file, const TensorNaming& naming);

  std::filesystem::path dir_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::map<std::string, Origin, std::less<>> origins_;
  std::string index_sha256_;
};

}  // namespace kv8
