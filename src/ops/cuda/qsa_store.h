// Everything that a QSA layer does to its projections before it selects and attends, in one pass.
#pragma once

#include "ops/cuda/device_types.h"

namespace kv8::cuda {

/// The contracts of ops/qsa.h (KvStore, IndexStore) and ops/norm.h (HeadNormRope) together:
///   query       = RoPE(norm(query_gate's query half))     index_query = RoPE(norm(index_qk's
///   heads)) K/V pool   <- Encode(RoPE(norm(key))), Encode(value) index ring <- index_qk's key;
///   index pool <- key of each selection block that a row completes
///
/// Shapes   T = rows.count, D head_dim, Di index_dim, R rotary_dim; all matrices are dense
/// Limits   D and Di: multiples of 16 up to 256; R <= D and Di. A sequence whose first row of a
/// call
///          is not the first token of a selection block has at most kRingTokens + 1 -
///          selection_block_tokens rows in that call: more would take places in the ring that its
///          block still needs.
/// Effects  writes query, index_query, pools, ring and, where it is given, key_out; adds to
///          saturation.
/// Order    a row's result depends on its sequence alone.
struct QsaStoreArgs {
  RowsView rows;
  PageTables tables;
  const float* query_gate;    // [T,query_heads,2,D]: query, then gate
  const float* key;           // [T,kv_heads,D]
  const float* value;         // [T,kv_heads,D]
  const float* index_qk;      // [T,index_heads+1,Di]: query heads, then the key
  const float* q_gain;        // [D] = 1 + w
  const float* k_gain;        // [D]
  const float* index_q_gain;  // [Di]
  const float* index_k_gain;  // [Di]
  const float* inv_freq;      // [R/2]
  float eps;
  std::int32_t query_heads;
  std::int32_t rotary_dim;
  std::int32_t index_heads;
  std::int32_t selection_block_tokens;
  KvPoolView kv;
  IndexPoolView index;
  float* index_ring;               // [sequences,kRingTokens,Di]
  float* key_out;                  // [T,kv_heads,D] keys after norm and RoPE, may be key; or null
  float* query;                    // [T,query_heads,D]
  float* index_query;              // [T,index_heads,Di]
  unsigned long long* saturation;  // [4]: clipped K and V, flushed K and V
};

}  // namespace kv8::cuda
