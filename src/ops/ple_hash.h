// N-gram hashing of the PLE memory.
#pragma once

#include <cstdint>
#include <span>

#include "kv8/types.h"
#include "tensor/layer_weights.h"

namespace kv8 {

/// Table rows of one token.
///
///   c_0 = window.back()
///   c_s = the id s places before it, or eos when an eos stands there or between
///   x_n = xor over s < n of c_s * multipliers[s]
///   rows[h] = x_n mod head_sizes[h] + offsets[h],   n = 2 + h / heads_per_ngram
///
/// Shapes   window [ngram_size] ids, oldest first; eos before a sequence's start | rows [heads]
/// Source   row ids of the released model, tests/unit/ops/ple_hash_test.cc
void PleRowIds(const PleHash& hash, std::span<const TokenId> window, std::span<std::int64_t> rows);

/// The row of the table, a run of pieces with equal rows, as a weight of one row.
inline Weight TableRow(std::span<const Weight> shards, std::int64_t row) {
  const std::int64_t rows = shards.front().rows;
  return shards[static_cast<std::size_t>(row / rows)].Rows(row % rows, 1);
}

/// window = the last window.size() ids of `context` followed by ids[0] to ids[i].
void FillWindow(std::span<const TokenId> context, std::span<const TokenId> ids, std::int64_t i,
                std::span<TokenId> window);

}  // namespace kv8
