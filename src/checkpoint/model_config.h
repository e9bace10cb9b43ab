// What config.json says about a model of the family, validated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"
#include "kv8/types.h"

namespace kv8 {

/// How a layer mixes tokens.
enum class LayerKind { kGdn, kQsa };

/// Gated DeltaNet dimensions; "key" heads are shared by value_heads / key_heads value heads each.
struct GdnConfig {
  int key_heads = 0;
  int value_heads = 0;
  int key_dim = 0;    // per head
  int value_dim = 0;  // per head
  int conv_kernel = 0;

  /// Channels of the short convolution: q, k and v one after another.
  int conv_channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }
};

/// Gated attention with QSA selection.
struct QsaConfig {
  int query_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;  // leading dimensions of a head (and of an index head) that rotate
  double rope_theta = 0;
  int index_heads = 0;
  int index_dim = 0;
  int block_tokens = 0;   // indexer_compress_ratio: tokens per selectable block
  int budget_blocks = 0;  // indexer_budget / indexer_compress_ratio
};

struct MoeConfig {
  int experts = 0;
  int experts_per_token = 0;
  int expert_dim = 0;         // moe_intermediate_size
  int shared_expert_dim = 0;  // shared_expert_intermediate_size
};

/// N-gram memory ("PLE").
struct PleConfig {
  std::vector<int> layers;  // 0-based, ascending (config.json counts from 1)
  int embed_dim = 0;
  int conv_kernel = 0;
  int ngram_size = 0;  // longest n-gram; also the dilation of the convolution
  int heads_per_ngram = 0;
  std::int64_t vocab_base = 0;
  std::int64_t vocab_divisor = 0;
  std::int64_t seed = 0;
  int parts = 0;  // shard_* pieces of the table

  int heads() const { return (ngram_size - 1) * heads_per_ngram; }
  int head_dim() const { return embed_dim / heads(); }
};

/// The draft head.
struct MtpConfig {
  double rope_theta = 0;
};

/// The text model. Every value was read from the file or has the family's documented default.
struct ModelConfig {
  int hidden = 0;
  int layers = 0;
  int vocab = 0;
  std::int64_t max_positions = 0;
  float rms_eps = 0;
  int streams = 0;             // hc_count
  int lowrank = 0;             // hc_lowrank
  std::optional<TokenId> eos;  // the PLE segment token, not the chat stop token
  std::vector<LayerKind> layer_kinds;
  GdnConfig gdn;
  QsaConfig qsa;
  MoeConfig moe;
  std::optional<PleConfig> ple;
  std::optional<MtpConfig> mtp;

  /// Indices of the QSA layers, ascending.
  std::vector<int> QsaLayers() const;
};

/// Reads the nested (`text_config`) or flat form; accepts every spelling of `layer_types` in use.
/// Errors: kUnsupported for a value kv8 does not implement, kCorrupt for a missing or wrongly typed
/// key, kMismatch for values that contradict each other; each names the key.
Result<ModelConfig> ParseModelConfig(const Json& config, std::string_view where);

}  // namespace kv8
