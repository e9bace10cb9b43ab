// The n-gram memory.
#pragma once

#include "ops/cuda/gdn.h"
#include "ops/cuda/linear.h"

namespace kv8::cuda {

inline constexpr std::int32_t kMaxNgram = 4;

/// The contract of ops/ple.h (PleFn).
///
/// Shapes   W = streams * hidden, E = heads * head_dim, D = (conv_kernel - 1) * ngram_size columns
/// of
///          convolution state; rows and slices describe the same rows
/// Limits   those of LinearArgs for E; ngram_size <= kMaxNgram; a table of 16-bit elements. Its
/// shards
///          may lie in pinned host memory.
/// Effects  updates residual, and every slice's conv_state and context; scratch is overwritten;
///          with a trail, what conv_state and context are after row j of verified slice i, but its
///          last row, becomes entry slot * drafts + j of the trail
/// Order    a row's result depends on its sequence alone, not on how rows are cut into calls
struct PleArgs {
  const std::int32_t* ids;  // [T]
  RowsView rows;            // sequence: slot of the states
  SlicesView slices;
  SlicesView verified;  // of the slices, those that may have to go back; at most drafts + 1 rows
  std::int32_t drafts;  // 0: no trail
  std::int32_t streams, hidden, heads, head_dim, heads_per_ngram, ngram_size, conv_kernel;
  std::int32_t eos;
  float eps;
  std::int64_t multipliers[kMaxNgram];
  const std::int64_t* head_sizes;      // [heads]
  const std::int64_t* offsets;         // [heads]
  const std::uint16_t* const* shards;  // equal rows of the table, [shard_rows,head_dim] each
  std::int64_t shard_rows;
  WeightFormat table_format;
  Weight key;                   // [W,E]
  Weight value;                 // [H,E]
  const float* gain_key;        // [W] = 1 + w
  const float* gain_query;      // [W]
  const float* gain_conv;       // [W]
  const float* conv;            // [W,conv_kernel]
  float* conv_state;            // [slots,D,W], oldest first
  std::int32_t* context;        // [slots,ngram_size-1], oldest first
  float* conv_trail;            // [slots*drafts,D,W]
  std::int32_t* context_trail;  // [slots*drafts,ngram_size-1]
  float* memory;                // scratch [T,E]
  float* keys;                  // scratch [T,W]
  float* values;                // scratch [T,H]
  float* gated;                 // scratch [T,W]
  float* normed;                // scratch [T,W]
  float* residual;              // [T,W]
  std::uint16_t* rounded;       // scratch [activation_parts,T,E], as LinearArgs has it
  std::int32_t activation_parts = 1;
};

}  // namespace kv8::cuda
