#include "model/cpu/op_sizes.h"

#include <algorithm>

namespace kv8 {

OpSizes OpSizesOf(const ModelSpec& spec, std::int64_t rows, std::int64_t sequences,
                  std::int64_t sequence_selection_blocks, int threads) {
  const std::int64_t values = std::int64_t{spec.gdn.value_heads} * spec.gdn.value_dim;
  const std::int64_t queries = std::int64_t{spec.qsa.query_heads} * spec.qsa.head_dim;
  return {.threads = threads,
          .rows = rows,
          .sequences = sequences,
          .sequence_selection_blocks = sequence_selection_blocks,
          .linear_rows = rows * (spec.draft ? spec.streams : 1),
          .linear_cols = std::max({std::int64_t{spec.hidden}, values, queries}),
          .hidden = spec.hidden,
          .streams = spec.streams,
          .lowrank = spec.lowrank,
          .gdn = spec.gdn,
          .qsa = spec.qsa,
          .moe = spec.moe,
          .ple = spec.ple};
}

}  // namespace kv8
