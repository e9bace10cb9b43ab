#include "family/ple_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace kv8 {
namespace {

constexpr std::int64_t kMaxDivisor = 1 << 20;
constexpr int kMaxHashHeads = 256;
constexpr int kMaxParts = 1 << 16;
constexpr std::size_t kMaxPleLayers = 16;
/// heads * vocab_base. Head sizes are the primes from vocab_base on, all below twice that in a
/// table that large, so that row ids fit 32 bits; it also bounds the search for the primes.
constexpr std::int64_t kMaxBaseRows = 1 << 30;

/// config.json counts layers from 1; the result counts from 0, ascending.
std::vector<int> ReadLayers(ConfigReader& reader, int layers) {
  constexpr std::string_view kKey = "ple_layer_ids";
  std::vector<int> out;
  const Json* ids = reader.Find(kKey);
  if (ids == nullptr) return out;
  if (!ids->is_array()) {
    reader.Fail(Code::kCorrupt, kKey, fmt::format("is {}; must be an array", JsonText(*ids)));
    return out;
  }
  for (const Json& id : *ids) {
    const auto layer = IntegerOf(id);
    if (!layer || *layer < 1 || *layer > layers) {
      reader.Fail(Code::kMismatch, kKey,
                  fmt::format("holds {}; layers count from 1 to {}", JsonText(id), layers));
      return out;
    }
    out.push_back(static_cast<int>(*layer) - 1);
  }
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) {
    reader.Fail(Code::kMismatch, kKey, fmt::format("holds {} twice", *twice + 1));
  }
  return out;
}

void CheckPleConfig(ConfigReader& reader, const PleConfig& ple) {
  if (ple.layers.size() > kMaxPleLayers) {
    reader.Fail(
        Code::kUnsupported, "ple_layer_ids",
        fmt::format("names {} layers; kv8 implements {}", ple.layers.size(), kMaxPleLayers));
  } else if (ple.heads() > kMaxHashHeads) {
    reader.Fail(Code::kUnsupported, "heads_per_ngram",
                fmt::format("is {}, which makes {} heads; kv8 implements {}", ple.heads_per_ngram,
                            ple.heads(), kMaxHashHeads));
  } else if (ple.heads() * ple.vocab_base > kMaxBaseRows) {
    reader.Fail(Code::kUnsupported, "ngram_vocab_size_base",
                fmt::format("is {}, times {} heads more than the {} rows that kv8 implements",
                            ple.vocab_base, ple.heads(), kMaxBaseRows));
  } else if (ple.embed_dim % ple.heads() != 0) {
    reader.Fail(Code::kMismatch, "ple_embed_dim",
                fmt::format("is {}, which {} heads (heads_per_ngram * (ngram_size - 1)) do not "
                            "divide",
                            ple.embed_dim, ple.heads()));
  }
  if (!reader.Has("eos_token_id")) {
    reader.Fail(Code::kMismatch, "eos_token_id",
                "is missing, but the n-gram memory (ple_layer_ids) needs it to cut sequences");
  }
}

}  // namespace

std::optional<PleConfig> ReadPleConfig(ConfigReader& reader, int layers) {
  PleConfig ple;
  ple.layers = ReadLayers(reader, layers);
  if (ple.layers.empty()) return std::nullopt;
  ple.embed_dim = reader.Extent("ple_embed_dim", 1 << 16);
  ple.conv_kernel = reader.Extent("ple_conv_kernel_size", 64);
  ple.ngram_size = static_cast<int>(reader.Int("ngram_size", 2, 8));
  ple.heads_per_ngram = reader.Extent("heads_per_ngram", kMaxHashHeads);
  ple.vocab_base = reader.Int("ngram_vocab_size_base", 2, kMaxBaseRows);
  ple.vocab_divisor = reader.Int("make_ngram_vocab_size_divisible_by", 1, kMaxDivisor);
  ple.seed = reader.Int("seed", 0, std::int64_t{1} << 62, 1234);
  // The class default (512) is not what the released model has, so the key must be there.
  ple.parts = reader.Extent("split_ngram_parts", kMaxParts);
  // Describes the table, which the tensors decide; ple_check.h compares.
  reader.RequireOneOf("ple_embedding_dtype",
                      {"auto", "bfloat16", "float16", "float32", "float8_e4m3fn", "nvfp4"}, true);
  CheckPleConfig(reader, ple);
  return ple;
}

}  // namespace kv8
