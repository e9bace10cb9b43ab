// The weights that each operation takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv8/types.h"
#include "tensor/weight.h"

namespace kv8 {

/// Of a Gated DeltaNet layer, beside its projections.
struct GdnWeights {
  std::span<const float> conv;     // [channels,kernel]
  std::span<const float> decay;    // [value_heads] = -exp(A_log)
  std::span<const float> dt_bias;  // [value_heads]
  std::span<const float> norm;     // [value_dim], used as it is (not 1 + w)
};

/// Of one hyper-connection; W = streams * hidden.
struct HyperConnectionWeights {
  std::span<const float> gain;  // [W] = 1 + w of hc_norm
  Weight down;                  // [r,W]
  Weight up;                    // [W,r]
  Weight inject;                // [streams,W]; empty in the final mixer
};

/// Of one block of experts; E experts of width F, shared expert of width Fs.
struct MoeWeights {
  Weight router;             // [E,H]
  std::vector<Weight> gate;  // per expert [F,H]
  std::vector<Weight> up;    // per expert [F,H]
  std::vector<Weight> down;  // per expert [H,F]
  Weight shared_gate_proj;   // [Fs,H]
  Weight shared_up_proj;     // [Fs,H]
  Weight shared_down_proj;   // [H,Fs]
  Weight shared_gate;        // [1,H]
};

/// Rows [begin, begin + count) of each expert's part of a stack [experts * rows, cols].
inline std::vector<Weight> ExpertsOf(const Weight& stack, int experts, std::int64_t begin,
                                     std::int64_t count) {
  const std::int64_t rows = stack.rows / experts;
  std::vector<Weight> weights;
  for (int e = 0; e < experts; ++e) weights.push_back(stack.Rows(e * rows + begin, count));
  return weights;
}

/// Constants of the hash of one layer's n-gram memory, as stored in the checkpoint: see PleRowIds.
struct PleHash {
  std::vector<std::int64_t> multipliers;  // [ngram_size]
  std::vector<std::int64_t> head_sizes;   // [heads], primes
  std::vector<std::int64_t> offsets;      // [heads], prefix sums of head_sizes
  int heads_per_ngram = 0;
  TokenId eos = 0;  // cuts the window of later tokens
};

/// Of one layer's n-gram memory; E = ple_embed_dim.
struct PleWeights {
  PleHash hash;
  std::vector<Weight> shards;         // equal rows, [rows,head_dim] each: one table in pieces
  Weight key;                         // [S*H,E]
  Weight value;                       // [H,E]
  std::span<const float> gain_key;    // [S*H] = 1 + w
  std::span<const float> gain_query;  // [S*H] = 1 + w
  std::span<const float> gain_conv;   // [S*H] = 1 + w
  std::span<const float> conv;        // [S*H,kernel]
};

}  // namespace kv8
