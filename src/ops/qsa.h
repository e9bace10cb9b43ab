// QSA attention: stores to the K/V and index pages, choice of selection blocks, sparse attention.
#pragma once

#include <cstdint>
#include <span>

#include "kvcache/layout.h"
#include "ops/norm.h"
#include "ops/op_context.h"
#include "tensor/layer_config.h"
#include "tensor/tensor_view.h"

namespace kv8 {

/// Rows of one sequence in a batch, and its caches. Row i of the slice has position
/// first_position + i.
struct QsaSlice {
  std::int64_t row_begin = 0;
  std::int64_t row_count = 0;
  std::int64_t first_position = 0;
  KvPages kv;
  IndexPages index;
  std::span<float> index_ring;  // [kIndexRingTokens, index_dim] f32
};

/// Stores K and V of every row at its position.
///   FP16: round to nearest even. E4M3: EncodeE4M3(x / scale), counted when |x / scale| > 448,
///   and when x is not 0 but its code is.
///   FP32: as is.
///
/// Shapes   k, v [T,kv_heads*head_dim] f32, K after norm and RoPE
/// Effects  writes the caches; adds to *saturation (never null).
/// Source   docs/spec/numerics.md; oracle ops/cpu/kv_store_ref.cc
using KvStoreFn = void(const OpContext&, ConstMatrix k, ConstMatrix v,
                       std::span<const QsaSlice> slices, SaturationCount* saturation);

/// Keeps raw index keys in the ring and, for each selection block that a row completes,
/// stores
///   K_b = RoPE at position b * selection_block_tokens (norm(mean of the block's raw keys))
///
/// Shapes   raw [T,index_dim] f32 | rope.gain [index_dim]
/// Effects  writes ring and index pages. Works for any cut of a sequence into calls.
/// Source   docs/spec/numerics.md; oracle ops/cpu/index_store_ref.cc
using IndexStoreFn = void(const OpContext&, const QsaConfig&, ConstMatrix raw,
                          const HeadNormRope& rope, std::span<const QsaSlice> slices);

/// The selection blocks that each row attends to. The open tail (tokens of the block that the
/// row's position has not completed) is always attended and not listed.
struct BlockSelection {
  std::span<std::int32_t> blocks;  // [T,budget_selection_blocks]: ascending, counts[t] of them
  std::span<std::int32_t> counts;  // [T]
};

/// For a row at position p, n = (p + 1) / selection_block_tokens complete blocks:
///   score(b) = sum over index heads h of max(0, iq[h] . K_b)
///   selected = the min(budget_selection_blocks, n) best, ties to the lower block; all n when
///              n <= budget_selection_blocks
/// A positive factor of the score would not change the order. A NaN score ranks below every number.
/// A row's own block is not forced in.
///
/// Shapes   iq [T,index_heads*index_dim] f32, after norm and RoPE
/// Source   docs/spec/numerics.md; oracle ops/cpu/select_blocks_ref.cc
using SelectBlocksFn = void(const OpContext&, const QsaConfig&, ConstMatrix iq,
                            std::span<const QsaSlice> slices, const BlockSelection& selection);

///   s_j = q[h] . K8_j * (k_scale / sqrt(head_dim))      selected tokens j, ascending, FP32
///   out[t,h,:] = v_scale * sum_j softmax(s)_j V8_j * sigmoid(gate[t,h,:])
/// where K8, V8 are the stored elements decoded exactly; query head h uses kv head
/// h / (query_heads / kv_heads).
///
/// Shapes   q, out [T,query_heads*head_dim] f32
///          gate: head h of row t at gate.data + t * gate.stride + h * gate_head_stride
/// Effects  writes out; zeros for a row that sees no token. Unselected and unused bytes of a page
///          are never read.
/// Order    a row's result depends on its own selection alone.
/// Source   docs/spec/numerics.md; oracle ops/cpu/sparse_attention_ref.cc
using SparseAttentionFn = void(const OpContext&, const QsaConfig&, ConstMatrix q, ConstMatrix gate,
                               std::int64_t gate_head_stride, std::span<const QsaSlice> slices,
                               const BlockSelection& selection, Matrix out);

}  // namespace kv8
