#include "model/cuda/weight_placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "ops/limits.h"
#include "tensor/visit_weights.h"

namespace kv8::cuda {

template <class T>
const T* WeightPlacer::Put(Arena& arena, const T* values, std::int64_t count) {
  T* const to = arena.Take<T>(count);
  AddPiece(to, values, count * static_cast<std::int64_t>(sizeof(T)));
  return to;
}

/// What follows the last piece in both memories is copied with it. A weight without memory, which
/// only has a size, leaves nothing to copy.
void WeightPlacer::AddPiece(void* to, const void* from, std::int64_t bytes) {
  if (from == nullptr) return;
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    // As numbers: a plan places at addresses from 0 on, where no memory is.
    const auto follows = [&last](const void* p, const void* before) {
      return std::bit_cast<std::intptr_t>(p) == std::bit_cast<std::intptr_t>(before) + last.bytes;
    };
    if (follows(to, last.to) && follows(from, last.from)) {
      last.bytes += bytes;
      return;
    }
  }
  pieces_.push_back({to, from, bytes});
}

void WeightPlacer::Vector(std::span<const float>& vector) {
  vector = {Put(arrays_, vector.data(), std::ssize(vector)), vector.size()};
}

void WeightPlacer::CheckFormat(const Weight& weight) {
  if (error_) return;  // the first is told
  if (std::ranges::count(WeightFormatsOf(DeviceKind::kCuda), weight.format) > 0) return;
  error_ = Error{Code::kUnsupported,
                 fmt::format("a matrix of {} x {} is {}, the GPU has {}", weight.rows, weight.cols,
                             Name(weight.format), WeightFormatsText(DeviceKind::kCuda)),
                 "--device cuda", "convert the checkpoint to BF16, or run with --device cpu"};
}

void WeightPlacer::Put(Weight& weight, Arena& arena) {
  CheckFormat(weight);
  weight.codes = Put(arena, weight.codes, weight.bytes());  // bytes: maybe unaligned
}

void WeightPlacer::CheckLike(const Weight& first, std::size_t expert, const Weight& other) {
  CheckFormat(other);
  if (error_) return;
  if (other.format == first.format && other.rows == first.rows && other.cols == first.cols) return;
  error_ =
      Error{Code::kUnsupported,
            fmt::format("expert {} has {} x {} of {}, expert 0 {} x {} of {}", expert, other.rows,
                        other.cols, Name(other.format), first.rows, first.cols, Name(first.format)),
            "--device cuda", "run with --device cpu"};
}

/// One expert after another, of each expert one part after another: the kernels take a stack.
void WeightPlacer::Experts(std::initializer_list<std::vector<Weight>*> parts) {
  const Weight first = (*parts.begin())->front();
  const std::size_t experts = (*parts.begin())->size();
  std::int64_t bytes = 0;
  for (const std::vector<Weight>* const part : parts) {
    for (const Weight& weight : *part) bytes += weight.bytes();
  }
  std::byte* to = arrays_.Take<std::byte>(bytes);
  for (std::size_t i = 0; i < experts; ++i) {
    for (std::vector<Weight>* const part : parts) {
      Weight& weight = (*part)[i];
      CheckLike(first, i, weight);
      AddPiece(to, weight.codes, weight.bytes());
      weight.codes = to;
      to += weight.bytes();
    }
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

DeviceWeights WeightPlacer::Place(const Model& model, bool with_draft) {
  pieces_.clear();
  shard_lists_.clear();
  const ModelWeights& host = model.weights;  // what it points to need not be copied along
  DeviceWeights placed{.weights = {.embed = host.embed,
                                   .lm_head = host.lm_head,
                                   .layers = host.layers,
                                   .mixer = host.mixer,
                                   .mtp = with_draft ? host.mtp : std::nullopt},
                       .ple_tables = {}};
  WeightVisit<WeightPlacer>{*this}(placed.weights);
  for (std::size_t i = 0; i < placed.weights.layers.size(); ++i) {
    const std::optional<PleWeights>& ple = host.layers[i].ple;
    if (ple) placed.ple_tables.push_back(PutTable(*ple, *placed.weights.layers[i].ple));
  }
  return placed;
}

Result<void> WeightPlacer::Check() const {
  if (error_) return *error_;
  return {};
}

Result<void> WeightPlacer::Upload(DeviceStream& stream) const {
  for (const Piece& piece : pieces_) {
    KV8_RETURN_IF_ERROR(stream.Copy(piece.to, piece.from, piece.bytes));
  }
  return stream.Synchronize();
}

}  // namespace kv8::cuda
