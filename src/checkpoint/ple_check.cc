#include "checkpoint/ple_check.h"

#include <fmt/format.h>

#include <cstring>

#include "checkpoint/ple_constants.h"

namespace kv8 {
namespace {

std::string PleShardName(std::string_view prefix, int part) {
  return fmt::format("{}ngram_embedding.shard_{}.weight", prefix, part);
}

Error Mismatch(const Checkpoint& checkpoint, std::string_view name, std::string what) {
  return Error{
      Code::kMismatch, std::move(what),
      fmt::format("{}: tensor {}", checkpoint.FileOf(name).string(), name),
      "use the config.json that belongs to these weights (ple_*, ngram_*, seed, vocab_size)"};
}

Result<void> CheckBuffer(const Checkpoint& checkpoint, const std::string& name,
                         std::span<const std::int64_t> derived) {
  const std::int64_t extent = std::ssize(derived);
  KV8_ASSIGN_OR_RETURN(const TensorView stored, checkpoint.Get(name, {{extent}}));
  if (stored.dtype != DType::kI64) {
    return Mismatch(checkpoint, name, fmt::format("has type {}, not I64", Name(stored.dtype)));
  }
  for (std::int64_t i = 0; i < extent; ++i) {
    std::int64_t value = 0;
    std::memcpy(&value, stored.data + i * 8, sizeof(value));
    if (value != derived[static_cast<std::size_t>(i)]) {
      return Mismatch(checkpoint, name,
                      fmt::format("index {} holds {}, config.json makes it {}", i, value,
                                  derived[static_cast<std::size_t>(i)]));
    }
  }
  return {};
}

Result<void> CheckShards(const Checkpoint& checkpoint, const std::string& prefix,
                         std::int64_t padded_rows) {
  const PleConfig& ple = *checkpoint.config().ple;
  std::int64_t rows = 0;
  std::string name;
  for (int part = 0; part < ple.parts; ++part) {
    name = PleShardName(prefix, part);
    const TensorView* shard = checkpoint.Find(name);
    if (shard == nullptr) {
      return Error{Code::kNotFound,
                   fmt::format("no tensor {}; split_ngram_parts is {}", name, ple.parts),
                   checkpoint.dir().string(), "download the missing file or correct config.json"};
    }
    if (shard->shape.size() != 2 || shard->shape[1] != ple.head_dim()) {
      return Mismatch(checkpoint, name,
                      fmt::format("has shape {}, expected [rows, {}]", ShapeText(shard->shape),
                                  ple.head_dim()));
    }
    rows += shard->shape[0];
  }
  if (rows != padded_rows) {
    return Mismatch(checkpoint, name,
                    fmt::format("the {} shards have {} rows together, config.json makes it {}",
                                ple.parts, rows, padded_rows));
  }
  const std::string beyond = PleShardName(prefix, ple.parts);
  if (checkpoint.Find(beyond) != nullptr) {
    return Mismatch(checkpoint, beyond,
                    fmt::format("exists, but split_ngram_parts is {}", ple.parts));
  }
  return {};
}

}  // namespace

Result<void> CheckPleTensors(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  if (!config.ple) return {};
  for (std::size_t i = 0; i < config.ple->layers.size(); ++i) {
    KV8_ASSIGN_OR_RETURN(const auto derived,
                         DerivePleConstants(*config.ple, config.vocab, static_cast<int>(i)));
    const auto prefix = fmt::format("model.layers.{}.ple.ple_embedding.", config.ple->layers[i]);
    KV8_RETURN_IF_ERROR(CheckBuffer(checkpoint, prefix + "layer_multipliers", derived.multipliers));
    KV8_RETURN_IF_ERROR(
        CheckBuffer(checkpoint, prefix + "ngram_heads_vocab_sizes", derived.head_rows));
    KV8_RETURN_IF_ERROR(
        CheckBuffer(checkpoint, prefix + "ngram_heads_offsets", derived.head_offsets));
    KV8_RETURN_IF_ERROR(CheckShards(checkpoint, prefix, derived.padded_rows));
  }
  return {};
}

}  // namespace kv8
