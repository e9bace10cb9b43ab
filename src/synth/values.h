// Where the values of a written checkpoint come from.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/tensor_files.h"
#include "kv8/error.h"
#include "synth/model_tensors.h"

namespace kv8 {

/// Threads may read at once.
class ValueSource {
 public:
  virtual ~ValueSource() = default;
  /// Elements of a tensor from `begin` on, all of them finite.
  virtual Result<void> Read(const ModelTensor& tensor, std::int64_t begin,
                            std::span<float> out) const = 0;
  /// What no magnitude in the tensor is above.
  virtual Result<float> Bound(const ModelTensor& tensor) const = 0;
};

/// Random weights that keep activations finite and spread the routing: bell-shaped with deviation
/// 1 / sqrt(fan-in), gains near 0 (near 1 for the norm that is not centred), decays as models of
/// the family start with. An element depends on seed, name and place alone, on no machine's
/// library, and is a BF16 number, so that every format quantises the same model.
class RandomValues final : public ValueSource {
 public:
  explicit RandomValues(std::uint64_t seed) : seed_(seed) {}
  Result<void> Read(const ModelTensor& tensor, std::int64_t begin,
                    std::span<float> out) const override;
  Result<float> Bound(const ModelTensor& tensor) const override;

 private:
  std::uint64_t seed_;
};

/// The values of a checkpoint, which must outlive this. Errors: those of TensorFiles::Get;
/// kUnsupported for weights that are quantised; kCorrupt for a value that is not finite.
class CheckpointValues final : public ValueSource {
 public:
  explicit CheckpointValues(const TensorFiles& files) : files_(files) {}
  Result<void> Read(const ModelTensor& tensor, std::int64_t begin,
                    std::span<float> out) const override;
  Result<float> Bound(const ModelTensor& tensor) const override;

 private:
  const TensorFiles& files_;
};

}  // namespace kv8
