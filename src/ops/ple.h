// The n-gram memory ("PLE") and the token embedding.
#pragma once

#include <span>

#include "kv8/types.h"
#include "ops/op_context.h"
#include "tensor/layer_config.h"
#include "tensor/layer_weights.h"
#include "tensor/tensor_view.h"

namespace kv8 {

///   R[t, s*H + d] = table[ids[t], d]    for every stream s
///
/// Shapes   ids [T], each in [0, table.rows) | table [V,H] | R [T,S*H]
using EmbedFn = void(const OpContext&, std::span<const TokenId> ids, const Weight& table,
                     int stream_count, Matrix streams);

/// Rows of one sequence in a batch, and its state.
struct PleSlice {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
  std::span<float> conv_state;  // [(kernel-1)*dilation, S*H]: last normalised inputs, oldest first;
                                // zeros at start
  std::span<TokenId> context;   // [ngram_size-1]: last ids, oldest first; eos at start
};

///   E  = the token's table rows, concatenated by head                 [T,E]
///   kn = GroupedRmsNorm(E . key^T; gain_key),  v = E . value^T
///   qn = GroupedRmsNorm(R; gain_query)
///   g0 = sum_d kn qn / sqrt(H) per stream;  g = sign(g0) sqrt(max(|g0|, 1e-6)), sign(0) = 0
///   u  = sigmoid(g) v;  un = GroupedRmsNorm(u; gain_conv)
///   f[t] = silu(sum_j conv[:,j] un[t - (kernel-1-j)*dilation]),  dilation = ngram_size
///   R += u + f
///
/// Shapes   ids [T] | table_rows [T*heads], one row each: what PleRowIds names, token by token, or
///          empty: they are looked up in weights.shards | R [T,S*H]
/// Effects  updates R, and every slice's conv_state and context.
/// Order    a row's result depends on its sequence alone, not on how rows are cut into calls.
/// Source   oracle ops/cpu/ple_ref.cc
using PleFn = void(const OpContext&, const PleConfig&, const PleWeights&,
                   std::span<const TokenId> ids, std::span<const Weight> table_rows,
                   std::span<const PleSlice> slices, int stream_count, float eps, Matrix streams);

}  // namespace kv8
