// model.safetensors.index.json: which tensor lives in which file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "kv8/error.h"

namespace kv8 {

/// Its name in a checkpoint directory.
inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// The name of the weights of a checkpoint that is one file, without an index.
inline constexpr std::string_view kSingleFile = "model.safetensors";

/// Largest index that is read, bytes; the released FP8 form with 152,089 tensors takes about 20 MB,
/// an NVFP4 form of every expert about 35 MB.
inline constexpr std::uint64_t kMaxIndexBytes = 128'000'000;

/// Tensor name as written -> file name. The allowlist of a checkpoint: what it does not name is
/// not part of the model, even when a shard holds it.
using TensorIndex = std::map<std::string, std::string, std::less<>>;

/// Reads the `weight_map` of an index. Errors: kCorrupt, naming tensor and file name, for a wrong
/// type, an empty map, or a file name that is not a plain "*.safetensors" name, so that no index
/// can make kv8 read outside its directory.
Result<TensorIndex> ParseTensorIndex(const Json& json, std::string_view where);

}  // namespace kv8
