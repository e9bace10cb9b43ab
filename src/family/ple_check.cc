#include "family/ple_check.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "family/ple_constants.h"

namespace kv8 {
namespace {

constexpr std::string_view kRemedy =
    "use the config.json that belongs to these weights (ple_*, ngram_*, seed, vocab_size)";

std::string ShardName(std::string_view prefix, int part) {
  return fmt::format("{}ngram_embedding.shard_{}.weight", prefix, part);
}

Error Mismatch(const Checkpoint& checkpoint, std::string_view name, std::string what) {
  return Error{Code::kMismatch, std::move(what),
               TensorPlace(checkpoint.FileOf(name).string(), name), std::string(kRemedy)};
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

/// Error when the config.json beside the table says another type of it.
Result<void> CheckStatedType(const Checkpoint& checkpoint, const std::string& name) {
  constexpr std::string_view kKey = "ple_embedding_dtype";
  const auto stated = checkpoint.config_fields().find(kKey);
  const auto stored = checkpoint.weights().find(name);
  if (stated == checkpoint.config_fields().end() || *stated == "auto") return {};
  // A table of an overlay has another config.json.
  if (stored == checkpoint.weights().end() || checkpoint.PartOf(name) != 0) return {};
  const WeightFormat format = stored->second.weight.format;
  const bool agrees = *stated == "float8_e4m3fn" ? format == WeightFormat::kFp8
                      : *stated == "nvfp4"       ? format == WeightFormat::kNvfp4
                                                 : IsPlain(format);
  if (agrees) return {};
  return Mismatch(checkpoint, name,
                  fmt::format("is {}, but config.json says that {} is {}", Name(format), kKey,
                              JsonText(*stated)));
}

Result<void> CheckShards(const Checkpoint& checkpoint, const std::string& prefix,
                         std::int64_t padded_rows) {
  const PleConfig& ple = *checkpoint.config().ple;
  if (padded_rows % ple.parts != 0) {
    return Error{Code::kMismatch,
                 fmt::format("split_ngram_parts is {}, which does not divide the {} table rows",
                             ple.parts, padded_rows),
                 (checkpoint.dir() / "config.json").string(), std::string(kRemedy)};
  }
  for (int part = 0; part < ple.parts; ++part) {
    const auto name = ShardName(prefix, part);
    KV8_RETURN_IF_ERROR(checkpoint.CheckWeight(
        name, std::array{padded_rows / ple.parts, std::int64_t{ple.head_dim()}}));
    KV8_RETURN_IF_ERROR(CheckStatedType(checkpoint, name));
  }
  const std::string beyond = ShardName(prefix, ple.parts);
  if (checkpoint.Find(beyond) != nullptr) {
    return Mismatch(checkpoint, beyond,
                    fmt::format("exists, but split_ngram_parts is {}", ple.parts));
  }
  return {};
}

}  // namespace

Result<void> CheckPleTensors(const Checkpoint& checkpoint) {
  const ModelSpec& config = checkpoint.config();
  if (!config.ple) return {};
  for (std::size_t i = 0; i < config.ple->layers.size(); ++i) {
    const auto derived = DerivePleConstants(*config.ple, config.vocab, static_cast<int>(i));
    const auto prefix = fmt::format("model.layers.{}.ple.ple_embedding.", config.ple->layers[i]);
    KV8_RETURN_IF_ERROR(
        CheckBuffer(checkpoint, prefix + "layer_multipliers", derived.hash.multipliers));
    KV8_RETURN_IF_ERROR(
        CheckBuffer(checkpoint, prefix + "ngram_heads_vocab_sizes", derived.hash.head_sizes));
    KV8_RETURN_IF_ERROR(
        CheckBuffer(checkpoint, prefix + "ngram_heads_offsets", derived.hash.offsets));
    KV8_RETURN_IF_ERROR(CheckShards(checkpoint, prefix, derived.padded_rows));
  }
  return {};
}

}  // namespace kv8
