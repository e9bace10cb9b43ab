#include "model/cuda/weight_placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tensor/visit_weights.h"

namespace kv8::cuda {

template <class T>
const T* WeightPlacer::Put(Arena& arena, const T* values, std::int64_t count) {
  T* const to = arena.Take<T>(count);
  pieces_.push_back({to, values, count * static_cast<std::int64_t>(sizeof(T))});
  return to;
}

void WeightPlacer::Vector(std::span<const float>& vector) {
  vector = {Put(arrays_, vector.data(), std::ssize(vector)), vector.size()};
}

void WeightPlacer::CheckFormat(const Weight& weight) {
  if (weight.format == WeightFormat::kBf16 || weight.format == WeightFormat::kFp16) return;
  error_ = Error{Code::kUnsupported,
                 fmt::format("a matrix of {} x {} is {}, the GPU has BF16 and F16", weight.rows,
                             weight.cols, Name(weight.format)),
                 "--device cuda", "convert the checkpoint to BF16, or run with --device cpu"};
}

void WeightPlacer::Put(Weight& weight, Arena& arena) {
  CheckFormat(weight);
  weight.codes = Put(arena, weight.codes, weight.bytes());  // bytes: maybe unaligned
}

/// One after another, as the kernels take them.
void WeightPlacer::Experts(std::vector<Weight>& experts) {
  const Weight& first = experts.front();
  std::byte* const to = arrays_.Take<std::byte>(std::ssize(experts) * first.bytes());
  for (std::size_t i = 0; i < experts.size(); ++i) {
    Weight& expert = experts[i];
    CheckFormat(expert);
    if (expert.format != first.format || expert.bytes() != first.bytes()) {
      error_ = Error{
          Code::kUnsupported,
          fmt::format("expert {} is {} x {} of {}, expert 0 {} x {} of {}", i, expert.rows,
                      expert.cols, Name(expert.format), first.rows, first.cols, Name(first.format)),
          "--device cuda", "run with --device cpu"};
      return;
    }
    std::byte* const place = to + static_cast<std::int64_t>(i) * first.bytes();
    pieces_.push_back({place, expert.codes, expert.bytes()});
    expert.codes = place;
  }
}

DevicePleTable WeightPlacer::PutTable(const PleWeights& host, const PleWeights& placed) {
  std::vector<const std::uint16_t*>& shards = shard_lists_.emplace_back();
  for (const Weight& shard : placed.shards) {
    shards.push_back(reinterpret_cast<const std::uint16_t*>(shard.codes));
  }
  const PleHash& hash = host.hash;
  return {.head_sizes = Put(arrays_, hash.head_sizes.data(), std::ssize(hash.head_sizes)),
          .offsets = Put(arrays_, hash.offsets.data(), std::ssize(hash.offsets)),
          .shards = Put(arrays_, shards.data(), std::ssize(shards))};
}

Result<DeviceWeights> WeightPlacer::Place(const Model& model, bool with_draft) {
  pieces_.clear();
  shard_lists_.clear();
  DeviceWeights placed{.weights = model.weights, .ple_tables = {}};
  placed.weights.vectors.clear();
  placed.weights.copies.clear();
  if (!with_draft) placed.weights.mtp.reset();
  WeightVisit<WeightPlacer>{*this}(placed.weights);
  for (std::size_t i = 0; i < placed.weights.layers.size(); ++i) {
    const std::optional<PleWeights>& host = model.weights.layers[i].ple;
    if (host) placed.ple_tables.push_back(PutTable(*host, *placed.weights.layers[i].ple));
  }
  if (error_) return *error_;
  return placed;
}

Result<void> WeightPlacer::Upload(DeviceStream& stream) const {
  for (const Piece& piece : pieces_) {
    KV8_RETURN_IF_ERROR(stream.Copy(piece.to, piece.from, piece.bytes));
  }
  return stream.Synchronize();
}

}  // namespace kv8::cuda
