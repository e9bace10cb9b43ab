// The tensors of a model: what a checkpoint of its configuration holds in plain formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv8/error.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// What a tensor is to the formats of checkpoints.
enum class TensorRole {
  kMatrix,   // a projection or an embedding
  kExperts,  // a stack of them, one per routed expert
  kTable,    // a part of an n-gram table
  kVector,   // a norm's gain, a bias, a convolution
};

struct ModelTensor {
  std::string name;  // canonical
  std::vector<std::int64_t> shape;
  TensorRole role = TensorRole::kMatrix;

  std::int64_t elements() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
  }
  bool is_draft() const { return name.starts_with("mtp."); }
};

/// Integers that go with an n-gram table.
struct HashBuffer {
  std::string name;  // canonical
  std::vector<std::int64_t> values;
};

struct ModelTensors {
  std::vector<ModelTensor> floats;  // every one that the forward pass reads, in its order
  std::vector<HashBuffer> hashes;
};

/// Errors: kMismatch when the parts of an n-gram table do not divide its rows.
Result<ModelTensors> TensorsOf(const ModelSpec& spec);

}  // namespace kv8
