#include "scalepack/merged_index.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/json_fields.h"

namespace kv8 {
namespace {

Error Corrupt(std::string what, std::string_view where) {
  return Error{Code::kCorrupt, std::move(what), std::string(where),
               "restore the file from the checkpoint's source"};
}

Error Collision(std::string what, std::string_view where) {
  return Error{Code::kAlreadyExists, std::move(what), std::string(where),
               "name the base checkpoint; this one has scales already"};
}

Result<void> CheckNoCollision(const Json& weight_map, const std::vector<AddedShard>& added,
                              std::string_view where) {
  std::vector<std::string> names;
  for (const AddedShard& shard : added) {
    for (const std::string& name : shard.tensor_names) {
      if (weight_map.contains(name)) names.push_back(name);
    }
  }
  if (!names.empty()) {
    return Collision(fmt::format("the index has {} already", fmt::join(names, ", ")), where);
  }
  for (const auto& [tensor, file] : weight_map.items()) {
    for (const AddedShard& shard : added) {
      if (file != shard.filename) continue;
      return Collision(
          fmt::format("the index places {} in {}, which would be hidden", tensor, shard.filename),
          where);
    }
  }
  return {};
}

Result<void> GrowTotal(Json* metadata, const std::vector<AddedShard>& added,
                       std::string_view where) {
  const auto total = metadata->find("total_size");
  if (total == metadata->end() || !total->is_number_integer()) return {};
  auto sum = AsCount(*total);
  if (!sum) return Corrupt("metadata.total_size is negative", where);
  for (const AddedShard& shard : added) {
    if (sum) sum = CheckedAdd(*sum, shard.bytes);
  }
  if (!sum) return Corrupt("metadata.total_size overflows", where);
  *total = *sum;
  return {};
}

}  // namespace

Result<Json> MergeIndex(Json base, const std::vector<AddedShard>& added, std::string_view where) {
  if (!base.is_object()) return Corrupt("the index is not a JSON object", where);
  const auto map = base.find("weight_map");
  if (map == base.end() || !map->is_object()) return Corrupt("weight_map is not an object", where);
  KV8_RETURN_IF_ERROR(CheckNoCollision(*map, added, where));
  for (const AddedShard& shard : added) {
    for (const std::string& name : shard.tensor_names) (*map)[name] = shard.filename;
  }
  const auto metadata = base.find("metadata");
  if (metadata == base.end() || metadata->is_null()) return base;
  if (!metadata->is_object()) return Corrupt("metadata is not an object", where);
  KV8_RETURN_IF_ERROR(GrowTotal(&*metadata, added, where));
  return base;
}

}  // namespace kv8
