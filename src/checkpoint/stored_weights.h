// The matrices of a checkpoint: which tensors make one, in which layout.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/tensor_files.h"
#include "checkpoint/weight_layout.h"
#include "kv8/error.h"
#include "tensor/weight.h"

namespace kv8 {

/// One matrix, as far as the headers tell.
struct StoredWeight {
  const WeightLayout* layout = nullptr;
  Weight weight;
  std::int64_t bytes = 0;    // of all its own tensors
  bool is_table = false;     // a piece of a table, whose rows are looked up
  bool zero_points = false;  // the layout may leave them out, and this one has them

  /// The tensor with the codes of the matrix `name`.
  std::string CodesName(std::string_view name) const;
};

/// By canonical name, which ends in ".weight" whatever the codes' own tensor is called. Matrices
/// whose name has no such end (stacks of experts) are none of these.
using StoredWeights = std::map<std::string, StoredWeight, std::less<>>;

/// All of `files`. Errors: those of LayoutOf and WeightLayout::describe, at file and tensor.
Result<StoredWeights> FindWeights(const TensorFiles& files, const TensorNaming& naming);

/// The matrix `name`, ready to be used. `files` must outlive it.
/// Errors: those of WeightLayout::load; kCorrupt for a scale that is NaN or infinite, except in
/// tables, which may be larger than memory and are not read here.
Result<Weight> LoadWeight(const TensorFiles& files, const TensorNaming& naming,
                          std::string_view name, const StoredWeight& stored,
                          std::optional<GptqZeros> zeros, WeightCopies& copies);

}  // namespace kv8
