#include "scalepack/lineage.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/sha256.h"
#include "checkpoint/index.h"
#include "family/tensor_names.h"
#include "scalepack/scale_names.h"

namespace kv8 {
namespace {

constexpr std::string_view kKvWeightsKey = "kv_weights_sha256";
constexpr std::string_view kWeightsKey = "weights_sha256";
constexpr std::string_view kConfigKey = "config";

struct Difference {
  std::string name;
  std::string stated;
  std::string found;
};

/// True for a shard of a view that a pack brought: it is bound by a hash of its own.
bool HoldsScalesOnly(const SafetensorsFile& file) {
  const auto& tensors = file.content().tensors;
  return std::ranges::all_of(tensors, [](const auto& tensor) {
    const auto canonical = CanonicalName(tensor.first);
    return canonical && ParseScaleTensorName(*canonical);
  });
}

Result<std::optional<std::string>> HashWeights(const Checkpoint& checkpoint,
                                               const WeightsHashOptions& options) {
  std::string lines;
  for (const CheckpointPart& part : checkpoint.parts()) {
    std::vector<const SafetensorsFile*> shards;
    for (std::size_t i = 0; i < part.files; ++i) {
      const SafetensorsFile& file = checkpoint.files()[part.first_file + i];
      if (!HoldsScalesOnly(file)) shards.push_back(&file);
    }
    KV8_ASSIGN_OR_RETURN(const auto hash, WeightsSha256(shards, options));
    if (!hash || checkpoint.parts().size() == 1) return hash;
    lines += *hash + "\n";
  }
  return std::optional(Sha256Hex(lines));
}

std::string ValueText(const Json& fields, const std::string& key) {
  return fields.contains(key) ? JsonText(fields.at(key)) : "absent";
}

void CompareConfig(const Json& stated, const Json& found, std::vector<Difference>* differences) {
  std::set<std::string> keys;
  for (const auto& [key, value] : stated.items()) keys.insert(key);
  for (const auto& [key, value] : found.items()) keys.insert(key);
  for (const std::string& key : keys) {
    if (stated.contains(key) && found.contains(key) && stated.at(key) == found.at(key)) continue;
    differences->push_back(
        {fmt::format("config.json: {}", key), ValueText(stated, key), ValueText(found, key)});
  }
}

/// All differences that show without reading the weights.
std::vector<Difference> CompareCheaply(const Lineage& stated, const Checkpoint& checkpoint) {
  std::vector<Difference> differences;
  const auto compare = [&differences](std::string_view what, const std::string& theirs,
                                      const std::string& ours) {
    if (theirs.empty() || theirs == ours) return;
    differences.push_back(
        {fmt::format("SHA-256 of {}", what), theirs, ours.empty() ? "absent" : ours});
  };
  compare(kIndexFile, stated.index_sha256, checkpoint.index_sha256());
  if (stated.kv_weights_sha256.empty()) return differences;
  compare("the K/V weights", stated.kv_weights_sha256, checkpoint.KvWeightsSha256());
  if (stated.weights_sha256.empty()) {
    differences.push_back({"SHA-256 of all weights",
                           "not stated (an older kv8 wrote it, which bound K and V alone)",
                           "not compared"});
    return differences;
  }
  CompareConfig(stated.config, checkpoint.config_fields(), &differences);
  return differences;
}

Error Refusal(const Difference& first, const Checkpoint& checkpoint, std::string_view owner,
              const std::string& where, std::string remedy) {
  return Error{Code::kMismatch,
               fmt::format("{} another checkpoint: {} is {} there and {} in {}", owner, first.name,
                           first.stated, first.found, checkpoint.dir().string()),
               where, std::move(remedy)};
}

}  // namespace

Result<void> ReadLineage(const JsonFields& fields, Lineage* lineage) {
  if (fields.Has(kKvWeightsKey)) {
    KV8_ASSIGN_OR_RETURN(lineage->kv_weights_sha256, fields.Sha256(kKvWeightsKey));
  }
  if (!fields.Has(kWeightsKey)) return {};
  KV8_ASSIGN_OR_RETURN(lineage->weights_sha256, fields.Sha256(kWeightsKey));
  KV8_ASSIGN_OR_RETURN(const JsonFields config, fields.Object(kConfigKey));
  lineage->config = config.json();
  return {};
}

void WriteLineage(const Lineage& lineage, Json* json) {
  if (!lineage.kv_weights_sha256.empty()) {
    (*json)[std::string(kKvWeightsKey)] = lineage.kv_weights_sha256;
  }
  if (lineage.weights_sha256.empty()) return;
  (*json)[std::string(kWeightsKey)] = lineage.weights_sha256;
  (*json)[std::string(kConfigKey)] = lineage.config;
}

Result<Lineage> LineageOf(const Checkpoint& checkpoint, const WeightsHashOptions& hash,
                          std::string weights_sha256) {
  if (weights_sha256.empty()) {
    WeightsHashOptions whole = hash;
    whole.recorded_only = false;
    KV8_ASSIGN_OR_RETURN(const auto computed, HashWeights(checkpoint, whole));
    weights_sha256 = computed.value_or("");
  }
  return Lineage{.index_sha256 = checkpoint.index_sha256(),
                 .kv_weights_sha256 = checkpoint.KvWeightsSha256(),
                 .weights_sha256 = std::move(weights_sha256),
                 .config = checkpoint.config_fields()};
}

Result<LineageMatch> CheckLineage(const Lineage& stated, const Checkpoint& checkpoint,
                                  const LineageOptions& options, std::string_view owner,
                                  const std::string& where, std::string remedy) {
  std::vector<Difference> differences = CompareCheaply(stated, checkpoint);
  const auto refused = [&] { return !differences.empty() && !options.accept; };
  LineageMatch match;
  if (!refused() && !stated.weights_sha256.empty()) {
    KV8_ASSIGN_OR_RETURN(const auto weights, HashWeights(checkpoint, options.hash));
    match.weights_sha256 = weights.value_or("");
    match.weights = weights ? WeightsBinding::kChecked : WeightsBinding::kTrusted;
    if (weights && *weights != stated.weights_sha256) {
      differences.push_back({"SHA-256 of all weights", stated.weights_sha256, *weights});
    }
  }
  if (refused()) return Refusal(differences.front(), checkpoint, owner, where, std::move(remedy));
  for (const Difference& difference : differences) match.accepted.push_back(difference.name);
  return match;
}

}  // namespace kv8
