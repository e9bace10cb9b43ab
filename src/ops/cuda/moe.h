// Mixture of experts with a gated shared expert.
#pragma once

#include "ops/cuda/linear.h"

namespace kv8::cuda {

inline constexpr std::int32_t kMaxExperts = 1024;
inline constexpr std::int32_t kMaxExpertsPerToken = 32;
/// Rows that are routed and grouped by one thread block instead of two kernels.
inline constexpr std::int32_t kMoeOneKernelRows = 64;
/// One matrix per expert, all of one shape and format.
struct ExpertWeights {
  Weight first;
  std::int64_t stride;  // bytes of codes from one expert to the next
};

/// Some of an expert's pairs, at most as many as a tile has columns.
struct ExpertTile {
  std::int32_t expert, begin, end;  // the first of its pairs and the one behind the last
};
/// Tiles of `pairs` pairs of `experts` experts, at most, and the entry that counts them.
constexpr std::int64_t MaxExpertTiles(std::int64_t experts, std::int64_t pairs,
                                      std::int64_t columns) {
  return (experts < pairs ? experts : pairs) + pairs / columns;
}

/// The contract of ops/moe.h: routing, experts grouped by who chose them, shared expert, sum.
///
/// Shapes   T rows, H hidden, E experts of width F, k experts_per_token, Fs shared width
/// Limits   those of LinearArgs for H, F and Fs; E <= kMaxExperts,
///          k <= min(E, kMaxExpertsPerToken); all weights of one format. NaN logits rank lowest.
/// Effects  writes out; scratch is overwritten
/// Order    every sum's order depends on the row's own experts alone
struct MoeArgs {
  const float* x;  // [T,H]
  std::int32_t rows, hidden, experts, experts_per_token, expert_dim, shared_dim;
  Weight router;                            // [E,H]
  ExpertWeights gate_up;                    // [2F,H]: F rows gate, then F rows up
  ExpertWeights down;                       // [H,F]
  Weight shared_gate_proj, shared_up_proj;  // [Fs,H]
  Weight shared_down_proj;                  // [H,Fs]
  Weight shared_gate;                       // [1,H]
  float* logits;                            // scratch [T,E]
  std::int32_t* chosen;                     // scratch [T,k]: experts, ascending
  float* weights;                           // scratch [T,k]
  std::int32_t* counts;                     // scratch [E]; zero between calls
  std::int32_t* cursors;                    // scratch [E]
  std::int32_t* begins;  // scratch [E+1]: where an expert's pairs begin in `pairs`
  ExpertTile* tiles;     // scratch [1 + MaxExpertTiles]: how many (expert), then each
  std::int32_t* pairs;   // scratch [T*k]: t * k + place of the expert in row t
  std::uint16_t*
      rounded;  // scratch [activation_parts,T,H], x as LinearArgs has it; unused for few rows
  float* expert_hidden;               // scratch [T*k,F]
  float* expert_out;                  // scratch [T*k,H]
  float* shared_hidden;               // scratch [T,Fs]
  float* shared_gate_value;           // scratch [T]
  float* shared_out;                  // scratch [T,H]
  float* out;                         // [T,H]
  std::int32_t activation_parts = 1;  // as in LinearArgs
  TileShape tile{};                   // set by the op
};

}  // namespace kv8::cuda
