// The index of a materialized view: the base's, plus the scales.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// A shard that a view adds.
struct AddedShard {
  std::string filename;
  std::uint64_t bytes = 0;  // of the whole file, header included
  std::vector<std::string> tensor_names;
};

/// Adds the shards' tensors to `weight_map`; `metadata.total_size`, where it is an integer, grows
/// by the size of each file; everything else stays. A `metadata` of null counts as absent.
/// Errors: kCorrupt for an index of another form or a total that overflows; kAlreadyExists, listing
/// all names, when the base has some of the tensors or uses one of the files.
Result<Json> MergeIndex(Json base, const std::vector<AddedShard>& added, std::string_view where);

}  // namespace kv8
