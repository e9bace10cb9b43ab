// Copies of a model's weights on the GPU.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "device/arena.h"
#include "device/device.h"
#include "ops/cuda/linear.h"
#include "tensor/model_weights.h"

namespace kv8::cuda {

/// What looking up n-gram rows takes in device memory, beside the table's shards.
struct DevicePleTable {
  const std::int64_t *head_sizes, *offsets;  // [heads]
  const std::uint16_t* const* shards;
};

struct DeviceWeights {
  ModelWeights weights;
  std::vector<DevicePleTable> ple_tables;  // by PLE layer
};

/// Gives every weight of a model a place, and remembers what goes there.
class WeightPlacer {
 public:
  /// Rows that are looked up, embedding and n-gram tables, go to `tables`; all else to `arrays`.
  WeightPlacer(Arena& arrays, Arena& tables) : arrays_(arrays), tables_(tables) {}

  DeviceWeights Place(const Model& model, bool with_draft);
  /// Whether the kernels can take what was placed. Errors: kUnsupported for a matrix in a format
  /// that they do not have, and for experts of one layer that differ in shape or format.
  Result<void> Check() const;
  /// Copies to the places of the last Place. Waits until it is done.
  Result<void> Upload(DeviceStream& stream) const;

  /// Called for each weight.
  void Matrix(Weight& weight) { Put(weight, arrays_); }
  void Table(Weight& weight) { Put(weight, tables_); }
  void Experts(std::initializer_list<std::vector<Weight>*> parts);
  void Vector(std::span<const float>& vector);

 private:
  struct Piece {
    void* to;
    const void* from;
    std::int64_t bytes;
  };

  template <class T>
  const T* Put(Arena& arena, const T* values, std::int64_t count);
  void AddPiece(void* to, const void* from, std::int64_t bytes);
  void Put(Weight& weight, Arena& arena);
  void CheckFormat(const Weight& weight);
  void CheckLike(const Weight& first, std::size_t expert, const Weight& other);
  DevicePleTable PutTable(const PleWeights& host, const PleWeights& placed);

  Arena& arrays_;
  Arena& tables_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<const std::uint16_t*>> shard_lists_;  // what some pieces copy
  std::optional<Error> error_;
};

}  // namespace kv8::cuda
