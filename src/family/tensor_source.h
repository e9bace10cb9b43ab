// Where the tensors of a model come from.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "family/checkpoint.h"
#include "kv8/error.h"
#include "tensor/weight.h"

namespace kv8 {

/// Gives tensors by their canonical names.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// Whether there is a tensor of exactly this name.
  virtual bool Has(const std::string& name) const = 0;
  /// A matrix; a stack of several counts as one above another. What the source does not hold itself
  /// is kept in `copies`.
  virtual Result<Weight> Matrix(const std::string& name, std::span<const std::int64_t> shape,
                                WeightCopies& copies) const = 0;
  /// A small tensor as FP32 values.
  virtual Result<std::vector<float>> Vector(const std::string& name,
                                            std::span<const std::int64_t> shape) const = 0;
};

/// The tensors of a checkpoint, which must outlive what is bound: matrices stay where it maps them,
/// unless they are stored in another order than Weight's.
/// Errors: those of Checkpoint::LoadWeight and TensorFiles::Get; kCorrupt for a value of a vector
/// that is not finite, naming tensor and file.
class CheckpointSource final : public TensorSource {
 public:
  explicit CheckpointSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  bool Has(const std::string& name) const override { return checkpoint_.Find(name) != nullptr; }
  Result<Weight> Matrix(const std::string& name, std::span<const std::int64_t> shape,
                        WeightCopies& copies) const override;
  Result<std::vector<float>> Vector(const std::string& name,
                                    std::span<const std::int64_t> shape) const override;

 private:
  const Checkpoint& checkpoint_;
};

/// Sizes alone, experts in stacks, without memory: what a model would take can be counted before
/// there is a checkpoint. Vectors are zeros.
class ShapeSource final : public TensorSource {
 public:
  /// How a matrix is stored: a weight without rows and columns.
  using StoredAs = std::function<Weight(const std::string& name)>;

  explicit ShapeSource(StoredAs stored) : stored_(std::move(stored)) {}
  /// Every matrix in one plain format.
  explicit ShapeSource(WeightFormat format)
      : stored_([format](const std::string&) { return Weight{.format = format}; }) {}

  bool Has(const std::string& name) const override;
  Result<Weight> Matrix(const std::string& name, std::span<const std::int64_t> shape,
                        WeightCopies& copies) const override;
  Result<std::vector<float>> Vector(const std::string& name,
                                    std::span<const std::int64_t> shape) const override;

 private:
  StoredAs stored_;
};

}  // namespace kv8
