// Dimensions of the family's layer types: read by family/, computed with by ops/.
#pragma once

#include <cstdint>
#include <vector>

namespace kv8 {

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
  int selection_block_tokens = 0;   // indexer_compress_ratio: tokens per selection block
  int budget_selection_blocks = 0;  // indexer_budget / indexer_compress_ratio

  /// Values that one token adds to one layer's cache: K and V, and its share of an index key.
  int kv_values_per_token() const { return 2 * kv_heads * head_dim; }
  double index_values_per_token() const {
    return static_cast<double>(index_dim) / selection_block_tokens;
  }
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
  /// Rows of a sequence that the convolution reads before the present one.
  std::int64_t conv_rows() const { return std::int64_t{conv_kernel - 1} * ngram_size; }
};

}  // namespace kv8
