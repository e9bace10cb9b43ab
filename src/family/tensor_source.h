// Where the tensors of a model come from.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_files.h"
#include "kv8/error.h"
#include "tensor/weight.h"

namespace kv8 {

/// Gives tensors by their canonical names.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// A matrix; a stack of several counts as one above another.
  virtual Result<Weight> Matrix(const std::string& name,
                                std::span<const std::int64_t> shape) const = 0;
  /// A small tensor as FP32 values.
  virtual Result<std::vector<float>> Vector(const std::string& name,
                                            std::span<const std::int64_t> shape) const = 0;
};

/// The tensors of a checkpoint, which must outlive what is bound: matrices stay where it maps them.
/// Errors: those of TensorFiles::Get; kCorrupt for a value of a vector that is not finite, naming
/// tensor and file.
class CheckpointSource final : public TensorSource {
 public:
  explicit CheckpointSource(const TensorFiles& checkpoint) : checkpoint_(checkpoint) {}

  Result<Weight> Matrix(const std::string& name,
                        std::span<const std::int64_t> shape) const override;
  Result<std::vector<float>> Vector(const std::string& name,
                                    std::span<const std::int64_t> shape) const override;

 private:
  const TensorFiles& checkpoint_;
};

/// Sizes alone, every matrix in one format and without memory: what a model would take can be
/// counted before there is a checkpoint. Vectors are zeros.
class ShapeSource final : public TensorSource {
 public:
  explicit ShapeSource(WeightFormat format) : format_(format) {}

  Result<Weight> Matrix(const std::string& name,
                        std::span<const std::int64_t> shape) const override;
  Result<std::vector<float>> Vector(const std::string& name,
                                    std::span<const std::int64_t> shape) const override;

 private:
  WeightFormat format_;
};

}  // namespace kv8
