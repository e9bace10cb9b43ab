// A rank's part of a model: which heads, experts, rows and layers it holds.
#pragma once

#include <cstdint>

#include "kv8/error.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// [begin, begin + count).
struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return begin + count; }
  /// The same range where each element takes `size` rows, `offset` rows from the start.
  Range Times(std::int64_t size, std::int64_t offset = 0) const {
    return {offset + begin * size, count * size};
  }
};

/// Into how many parts a model is cut: stages of whole layers, and ranks that share each layer.
struct ShardCounts {
  int pipeline = 1;
  int tensor = 1;
};

/// What one rank holds. Norms, routers, hyper-connections, the indexer and the n-gram memory's
/// projections are small, or everyone needs all of what they give: each rank has them whole.
struct Shard {
  Range layers;         // of the target, by number
  bool first = true;    // the stage with the embeddings; a draft needs them on the last stage too
  bool last = true;     // the stage with the final mixer, the head and the draft
  Range query_heads;    // of QSA
  Range kv_heads;       // those that query_heads read; more ranks than heads share one
  Range value_heads;    // of GDN
  Range key_heads;      // those that value_heads read
  Range experts;        // routed experts; the router has all
  Range shared_expert;  // of the shared expert's width
  Range vocab;          // rows of the embeddings and of the head
  Range table_parts;    // pieces of every n-gram table
};

/// The part of rank `rank` of `counts.tensor` in stage `stage` of `counts.pipeline`, from 0.
/// Errors: kInvalidArgument naming the field of config.json whose value cannot be cut so, and both
/// numbers.
Result<Shard> ShardOf(const ModelSpec& spec, const ShardCounts& counts, int stage, int rank);

/// The only rank's: everything.
Shard WholeModel(const ModelSpec& spec);

/// The model as the rank sees it: what its arrays, states and caches are sized by. Layers keep
/// their numbers; their places among their like count from 0. `moe.experts` stays: every rank
/// chooses among all.
ModelSpec SpecOf(const ModelSpec& spec, const Shard& shard);

}  // namespace kv8
