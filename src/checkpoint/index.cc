#include "checkpoint/index.h"

#include <fmt/format.h>

#include "base/file.h"

namespace kv8 {
namespace {

bool IsShardName(std::string_view name) {
  constexpr std::string_view kExtension = ".safetensors";
  return IsPlainFileName(name) && name.size() > kExtension.size() && name.ends_with(kExtension);
}

}  // namespace

Result<TensorIndex> ParseTensorIndex(const Json& json, std::string_view where) {
  const auto corrupt = [where](std::string what) {
    return Error{Code::kCorrupt, std::move(what), std::string(where),
                 "restore the file from the checkpoint's source"};
  };
  if (!json.is_object()) return corrupt("the index is not a JSON object");
  const auto map = json.find("weight_map");
  if (map == json.end()) return corrupt("the key weight_map is missing");
  if (!map->is_object() || map->empty()) {
    return corrupt("weight_map is not an object with at least one tensor");
  }
  TensorIndex index;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !IsShardName(file.get_ref<const std::string&>())) {
      return corrupt(fmt::format(
          "weight_map places tensor {} in {}; only a plain name ending in .safetensors can stand "
          "there",
          tensor, JsonText(file)));
    }
    index.emplace(tensor, file.get<std::string>());
  }
  return index;
}

}  // namespace kv8
