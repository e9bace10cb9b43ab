// What the CPU's ops are called with by passes over a model.
#pragma once

#include "ops/op_sizes.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// For batches of up to `rows` rows of `sequences` sequences, each of up to
/// `sequence_selection_blocks` selection blocks, and heads over up to `rows` rows.
OpSizes OpSizesOf(const ModelSpec& spec, std::int64_t rows, std::int64_t sequences,
                  std::int64_t sequence_selection_blocks, int threads);

}  // namespace kv8
