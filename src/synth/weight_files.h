// Groups of tensors as a series of files with an index.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/staged_directory.h"
#include "base/thread_pool.h"
#include "kv8/error.h"
#include "synth/tensor_group.h"

namespace kv8 {

/// Bytes that are written and all there are to write; false stops the work.
using WriteProgress = std::function<bool(std::uint64_t done, std::uint64_t all)>;

/// A file of the series.
struct WeightFile {
  std::string name;  // "model-00001-of-00005.safetensors"
  std::vector<TensorGroup> groups;
};

/// Cuts the groups, in their order, into files of at most `shard_bytes` of tensors; a group that is
/// larger gets a file of its own. Errors: kInvalidArgument for more files than the names can count.
Result<std::vector<WeightFile>> CutIntoFiles(std::vector<TensorGroup> groups,
                                             std::uint64_t shard_bytes);

/// The index of the series.
Json IndexOf(const std::vector<WeightFile>& files);

/// Writes every file into `out`. Memory is bounded by threads times the largest piece, whatever the
/// files take. Errors: those of the groups and of SafetensorsWriter; kCancelled.
Result<void> WriteWeights(const std::vector<WeightFile>& files, const StagedDirectory& out,
                          ThreadPool& pool, const WriteProgress& progress);

/// Bytes that writing takes on the disk: without holes.
std::uint64_t DiskBytes(const std::vector<WeightFile>& files);

}  // namespace kv8
