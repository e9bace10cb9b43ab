#include "family/checkpoint.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/file.h"
#include "base/sha256.h"
#include "checkpoint/generation_config.h"
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

Result<Checkpoint> Checkpoint::Open(const std::filesystem::path& dir) {
  Json fields = Json::object();
  KV8_ASSIGN_OR_RETURN(ModelSpec config, LoadModelSpec(dir, &fields));
  KV8_ASSIGN_OR_RETURN(TensorFiles files, TensorFiles::Open(dir, Naming()));
  Checkpoint out(std::move(files));
  out.config_ = std::move(config);
  out.config_fields_ = std::move(fields);
  out.layer_prefix_ = LayerPrefixOf(out.written_names());
  KV8_RETURN_IF_ERROR(out.ReadGenerationConfig());
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
