#include "family/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/quantization_check.h"
#include "family/layer_check.h"
#include "family/model_config.h"
#include "family/ple_check.h"
#include "family/tensor_names.h"

namespace kv8 {
namespace {

constexpr std::uint64_t kMaxGenerationConfigBytes = 16'000'000;

/// The prefix with the most distinct layer ids; empty when none or when two tie.
std::string LayerPrefixOf(const std::vector<std::string_view>& written_names) {
  std::map<std::string, std::set<std::string>> votes;
  for (const std::string_view name : written_names) {
    if (const auto vote = LayerVoteOf(name)) votes[vote->prefix].insert(vote->layer);
  }
  std::string winner;
  std::size_t most = 0;
  for (const auto& [prefix, ids] : votes) {
    if (ids.size() == most) winner.clear();
    if (ids.size() > most) {
      winner = prefix;
      most = ids.size();
    }
  }
  return winner;
}

}  // namespace

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& dir,
                                    std::span<const std::filesystem::path> overlays) {
  Json fields = Json::object();
  KV8_ASSIGN_OR_RETURN(ModelSpec config, LoadModelSpec(dir, &fields));
  KV8_ASSIGN_OR_RETURN(TensorFiles files, TensorFiles::Open(dir, overlays, Naming()));
  Checkpoint out(std::move(files));
  out.config_ = std::move(config);
  out.config_fields_ = std::move(fields);
  out.layer_prefix_ = LayerPrefixOf(out.written_names());
  for (const std::filesystem::path& overlay : overlays) {
    KV8_RETURN_IF_ERROR(out.ReadOverlayConfig(overlay));
  }
  KV8_RETURN_IF_ERROR(out.ReadGenerationConfig());
  KV8_ASSIGN_OR_RETURN(out.weights_, FindWeights(out, Naming()));
  KV8_RETURN_IF_ERROR(out.ReadQuantization());
  KV8_RETURN_IF_ERROR(CheckPleTensors(out));
  KV8_RETURN_IF_ERROR(CheckLayersAreKnown(out));
  return out;
}

Result<void> Checkpoint::ReadGenerationConfig() {
  const auto path = dir() / "generation_config.json";
  if (PathExists(path)) {
    KV8_ASSIGN_OR_RETURN(const Json file, ReadJsonFile(path, kMaxGenerationConfigBytes));
    KV8_ASSIGN_OR_RETURN(stop_ids_, ParseStopIds(file, config_.vocab, path.string()));
    KV8_ASSIGN_OR_RETURN(generation_, ParseGenerationDefaults(file, path.string()));
  }
  if (stop_ids_.empty() && config_.eos) stop_ids_.push_back(*config_.eos);
  return {};
}

Result<void> Checkpoint::ReadOverlayConfig(const std::filesystem::path& dir) const {
  const auto path = dir / kConfigFile;
  if (!PathExists(path)) return {};
  Json fields = Json::object();
  KV8_RETURN_IF_ERROR(LoadModelSpec(dir, &fields));
  fields.erase("ple_embedding_dtype");  // of the overlay's own table
  for (const auto& [key, value] : fields.items()) {
    const auto ours = config_fields_.find(key);
    if (ours == config_fields_.end() || *ours == value) continue;
    return Error{Code::kMismatch,
                 fmt::format("{} is {}, in {} it is {}", key, JsonText(value), this->dir().string(),
                             JsonText(*ours)),
                 path.string(), "use overlays of the same model"};
  }
  return {};
}

Result<void> Checkpoint::ReadQuantization() {
  bool described = false;
  for (std::size_t part = 0; part < parts().size(); ++part) {
    KV8_ASSIGN_OR_RETURN(const auto configs, LoadQuantizationConfigs(parts()[part].dir));
    KV8_ASSIGN_OR_RETURN(const auto lines, CompareQuantization(*this, part, weights_, configs));
    disagreements_.insert(disagreements_.end(), lines.begin(), lines.end());
    std::optional<GptqZeros>& zeros = gptq_zeros_.emplace_back();
    for (const QuantizationConfig& config : configs) {
      described = described || config.claims_any();
      if (config.gptq_zeros()) zeros = config.gptq_zeros();
    }
  }
  const auto quantised = std::ranges::find_if(
      weights_, [](const auto& weight) { return !IsPlain(weight.second.weight.format); });
  if (!described && quantised != weights_.end()) {
    disagreements_.push_back(
        fmt::format("no configuration says that weights are quantised; {} is {}", quantised->first,
                    quantised->second.layout->name));
  }
  return {};
}

Result<void> Checkpoint::CheckWeight(const std::string& name,
                                     std::span<const std::int64_t> shape) const {
  const auto found = weights_.find(name);
  if (found == weights_.end() || IsPlain(found->second.weight.format)) {
    KV8_ASSIGN_OR_RETURN(const TensorView tensor, Get(name, shape));
    if (IsPlainFloat(tensor.dtype)) return {};
    return Error{Code::kUnsupported, fmt::format("has type {}", Name(tensor.dtype)),
                 TensorPlace(FileOf(name).string(), name),
                 "use a checkpoint in a layout that kv8 reads (docs/guide/checkpoints.md)"};
  }
  const StoredWeight& stored = found->second;
  const std::array held = {stored.weight.rows, stored.weight.cols};
  if (std::ranges::equal(shape, held)) return {};
  const std::string codes(stored.CodesName(name));
  return Error{Code::kMismatch,
               fmt::format("holds {} as {}, config.json makes it {}", ShapeText(held),
                           stored.layout->name, ShapeText(shape)),
               TensorPlace(FileOf(codes).string(), codes),
               "check that config.json belongs to these weights"};
}

Result<Weight> Checkpoint::LoadWeight(const std::string& name, std::span<const std::int64_t> shape,
                                      WeightCopies& copies) const {
  KV8_RETURN_IF_ERROR(CheckWeight(name, shape));
  const auto found = weights_.find(name);
  if (found == weights_.end()) {
    const TensorView& tensor = *Find(name);
    return Weight{PlainFormat(tensor.dtype), tensor.elements() / shape.back(), shape.back(),
                  tensor.data};
  }
  const std::size_t part = PartOf(found->second.CodesName(name));
  return kv8::LoadWeight(*this, Naming(), name, found->second, gptq_zeros_[part], copies);
}

std::string Checkpoint::KvWeightsSha256() const {
  Sha256 hash;
  // Sorted names put "model." before "mtp.": target, then draft.
  for (const auto& [name, view] : tensors()) {
    if (!MakesKv(name)) continue;
    hash.Update(fmt::format("{}\n{}\n{}\n", name, Name(view.dtype), ShapeText(view.shape)));
    hash.Update(std::span(view.data, static_cast<std::size_t>(view.bytes())));
  }
  return hash.FinishHex();
}

}  // namespace kv8
