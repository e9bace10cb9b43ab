// The tensors that one stored matrix consists of.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"
#include "tensor/tensor_view.h"

namespace kv8 {

using TensorMap = std::map<std::string, TensorView, std::less<>>;

/// Memory of matrices that cannot stay where they are mapped.
using WeightCopies = std::vector<std::shared_ptr<const std::byte[]>>;

/// True for the last part of the name of a tensor that belongs to a matrix: "weight",
/// "weight_scale", "qweight" and the like, of every known layout and of those that are refused.
bool IsWeightPart(std::string_view leaf);

/// Name up to the last dot, the dot included: what the tensors of a matrix have in common.
std::string_view StemOf(std::string_view name);

/// Parts of one matrix, of the matrix [rows,cols] that `stem` names.
class WeightParts {
 public:
  struct Part {
    std::string_view leaf;
    std::string_view name;  // canonical
    const TensorView* view = nullptr;
  };

  /// Collects them from `tensors`, which must outlive this. Scales that the stem lacks are those
  /// of `shared_stem`, unless that is empty: a table in pieces may have one scale for all.
  WeightParts(const TensorMap& tensors, std::string_view stem, std::string_view shared_stem);

  /// nullptr when there is no such part.
  const TensorView* Find(std::string_view leaf) const;
  /// The part must be there.
  const TensorView& At(std::string_view leaf) const;
  std::span<const Part> parts() const { return parts_; }
  /// An error about a part, at its name; at the stem's weight where the part is missing.
  Error Bad(std::string_view leaf, Code code, std::string what) const;

 private:
  std::string stem_;
  std::vector<Part> parts_;
};

}  // namespace kv8
