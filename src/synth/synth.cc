#include "synth/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/output_path.h"
#include "base/staged_directory.h"
#include "checkpoint/index.h"
#include "checkpoint/model_directory.h"
#include "family/checkpoint.h"
#include "family/model_config.h"
#include "family/tensor_owner.h"
#include "synth/quantization_config.h"
#include "synth/tokenizer_files.h"

namespace kv8 {
namespace {

namespace fs = std::filesystem;

/// No directory above the output may be a checkpoint, read from or not.
Result<void> CheckOutsideCheckpoints(const fs::path& output) {
  KV8_ASSIGN_OR_RETURN(fs::path place, ResolvePath(output));
  while (place.has_relative_path()) {
    place = place.parent_path();
    for (const fs::path file : {kIndexFile, kSingleFile}) {
      if (PathExists(place / file)) KV8_RETURN_IF_ERROR(CheckOutside(output, {place}));
    }
  }
  return {};
}

/// The configuration before formats are described.
Result<Json> ConfigOf(const SynthRequest& request) {
  Dimensions dimensions = request.dimensions;
  if (request.from) dimensions.source = (*request.from / kConfigFile).string();
  KV8_ASSIGN_OR_RETURN(Json config, MakeConfig(dimensions));
  if (!request.from) SetBundledTokenIds(config);
  return config;
}

Result<void> CheckLayers(const SynthRequest& request, const Checkpoint& from) {
  const int has = from.config().layer_count();
  if (!request.dimensions.layers || *request.dimensions.layers <= has) return {};
  return Error{Code::kInvalidArgument,
               fmt::format("is {}; {} has {} layers", *request.dimensions.layers,
                           request.from->string(), has),
               "--layers", "ask for at most as many, or leave --from out"};
}

/// Every group, tables last: they are the largest.
Result<std::vector<TensorGroup>> GroupsOf(const ModelTensors& tensors, const SynthRequest& request,
                                          const ValueSource& values) {
  std::vector<TensorGroup> groups;
  const ModelTensor* gate_up = nullptr;
  for (const ModelTensor& tensor : tensors.floats) {
    const StoredFormat& stored = request.formats.ExpertsOf(tensor);
    if (tensor.role == TensorRole::kTable) continue;
    if (tensor.role != TensorRole::kExperts) {
      groups.push_back(PlainGroup(tensor, request.formats.plain(), values));
    } else if (IsPlain(stored.format)) {
      groups.push_back(PlainGroup(tensor, stored.format, values));
    } else if (tensor.name.ends_with("gate_up_proj")) {
      gate_up = &tensor;
    } else {
      for (std::int64_t e = 0; e < tensor.shape[0]; ++e) {
        groups.push_back(ExpertGroup(*gate_up, tensor, e, stored, values));
      }
    }
  }
  for (const HashBuffer& buffer : tensors.hashes) groups.push_back(HashGroup(buffer));
  KV8_ASSIGN_OR_RETURN(auto tables,
                       TableGroups(tensors.floats, request.formats.table, request.sparse, values));
  std::ranges::move(tables, std::back_inserter(groups));
  return groups;
}

SynthSummary SummaryOf(const std::vector<WeightFile>& files) {
  SynthSummary out{.files = std::ssize(files)};
  for (const WeightFile& file : files) {
    for (const TensorGroup& group : file.groups) {
      SynthSummary::Module& module = out.modules[std::string(OwnerOf(group.canonical_name))];
      module.weights += group.weights;
      module.bytes += group.bytes();
      out.tensors += std::ssize(group.tensors);
      out.bytes += group.bytes();
      out.hole_bytes += group.hole_bytes;
    }
  }
  return out;
}

/// `staged` is where the disk is asked: the output does not exist yet.
Result<void> CheckRoom(const fs::path& output, const fs::path& staged, std::uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(staged, error);
  if (error || space.available >= bytes) return {};
  return Error{
      Code::kResourceExhausted,
      fmt::format("the checkpoint takes {} bytes, the disk has {} free", bytes, space.available),
      output.string(), "free space, or ask for less with --layers, --weights or --sparse"};
}

Result<void> WriteAll(const SynthRequest& request, const std::vector<WeightFile>& files,
                      const Json& config, const std::vector<TextFile>& texts) {
  KV8_ASSIGN_OR_RETURN(auto staged, StagedDirectory::Create(request.output, {}));
  KV8_RETURN_IF_ERROR(CheckRoom(request.output, staged.path(), DiskBytes(files)));
  const int hardware = static_cast<int>(std::thread::hardware_concurrency());
  ThreadPool pool(request.threads > 0 ? request.threads : hardware);
  KV8_RETURN_IF_ERROR(WriteWeights(files, staged, pool, request.progress));
  KV8_RETURN_IF_ERROR(staged.Write(kIndexFile, DumpJson(IndexOf(files))));
  KV8_RETURN_IF_ERROR(staged.Write(kConfigFile, DumpJson(config)));
  for (const auto& [name, content] : texts) KV8_RETURN_IF_ERROR(staged.Write(name, content));
  return staged.Publish();
}

}  // namespace

Result<SynthSummary> Synthesise(const SynthRequest& request) {
  KV8_RETURN_IF_ERROR(CheckOutsideCheckpoints(request.output));
  std::optional<Checkpoint> from;
  if (request.from) {
    KV8_RETURN_IF_ERROR(CheckOutsideCheckpoint(request.output, *request.from));
    KV8_ASSIGN_OR_RETURN(from, Checkpoint::Open(*request.from));
    KV8_RETURN_IF_ERROR(CheckLayers(request, *from));
  }
  KV8_ASSIGN_OR_RETURN(Json config, ConfigOf(request));
  KV8_ASSIGN_OR_RETURN(const ModelSpec spec, ReadModelSpec(config, kConfigFile));
  KV8_ASSIGN_OR_RETURN(const auto texts, TokenizerFiles(request.from, spec.vocab));
  KV8_ASSIGN_OR_RETURN(const ModelTensors tensors, TensorsOf(spec));
  KV8_RETURN_IF_ERROR(CheckFormats(request.formats, tensors));
  DescribeFormats(request.formats, tensors, config);
  std::unique_ptr<ValueSource> values;
  if (from) {
    values = std::make_unique<CheckpointValues>(*from);
  } else {
    values = std::make_unique<RandomValues>(request.seed);
  }
  KV8_ASSIGN_OR_RETURN(auto groups, GroupsOf(tensors, request, *values));
  KV8_ASSIGN_OR_RETURN(const auto files, CutIntoFiles(std::move(groups), request.shard_bytes));
  KV8_RETURN_IF_ERROR(WriteAll(request, files, config, texts));
  return SummaryOf(files);
}

}  // namespace kv8
