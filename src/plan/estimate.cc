#include "plan/estimate.h"

#include <algorithm>
#include <cmath>

#include "kvcache/layout.h"

namespace kv8 {
namespace {

/// Operations that a layer starts for a part, as src/model/cpu/cpu_steps.cc has them.
double CallsOf(const ModelSpec& spec, WeightModule module) {
  const double layers = spec.layer_count();
  switch (module) {
    case WeightModule::kHyperConnections:
      return 8 * layers + 3;  // twice: normalise, down, up, combine
    case WeightModule::kLinearAttention:
      return 3.0 * spec.GdnLayers();  // projections, out, recurrence
    case WeightModule::kAttention:
      return 6.0 * spec.KvLayers(false);  // projections, norms, stores, out
    case WeightModule::kRouter:
      return layers;
    case WeightModule::kExperts:
      return 2 * layers;  // gate and up, down
    case WeightModule::kSharedExpert:
      return 2 * layers;
    case WeightModule::kNgramProjections:
      return spec.ple ? 4.0 * static_cast<double>(spec.ple->layers.size()) : 0;
    case WeightModule::kHead:
      return 1;
    default:
      return 0;
  }
}

bool IsLookedUp(WeightModule module) {
  return module == WeightModule::kEmbeddings || module == WeightModule::kNgramTable;
}

/// Of residual streams: each of a layer's two connections normalises them and reads the result,
/// then reads and writes them to combine.
double StreamBytes(const ModelSpec& spec, std::int64_t rows) {
  constexpr double kPasses = 5, kFloatBytes = 4;
  return 2 * kPasses * kFloatBytes * static_cast<double>(rows * spec.stream_width()) *
         spec.layer_count();
}

PartWork ProductWork(const ModelSpec& spec, const ModuleBytes& module, const PassShape& pass) {
  PartWork work{.part = std::string(Name(module.module)), .calls = 0};
  const auto rows = static_cast<double>(pass.rows);
  const auto bytes = static_cast<double>(module.bytes), values = static_cast<double>(module.values);
  if (module.module == WeightModule::kExperts) {
    const double share = static_cast<double>(spec.moe.experts_per_token) / spec.moe.experts;
    // Rows that choose at random leave out some experts.
    work.bytes = bytes * (1 - std::pow(1 - share, rows));
    work.macs = values * rows * share;
  } else {
    work.bytes = bytes;
    work.macs =
        values *
        (module.module == WeightModule::kHead ? static_cast<double>(pass.logit_rows) : rows);
  }
  return work;
}

/// Reading the chosen tokens' K and V, and the index keys of all.
void AddCaches(const ModelSpec& spec, const PassShape& pass, std::vector<PartWork>& parts) {
  const QsaConfig& q = spec.qsa;
  const double rows = static_cast<double>(pass.rows), layers = spec.KvLayers(false);
  const double budget = double{1} * q.budget_selection_blocks * q.selection_block_tokens;
  const double tokens = std::min(static_cast<double>(pass.context), budget) + 1;
  const double keys = static_cast<double>(pass.context) / q.selection_block_tokens;
  const double kv = static_cast<double>(q.kv_values_per_token() * SizeOf(pass.dtype));
  parts.push_back({"kv_cache", layers * rows * tokens * kv,
                   layers * rows * tokens * 2 * q.query_heads * q.head_dim, layers});
  // Rows of a chunk share the keys that they are compared with.
  parts.push_back({"selection",
                   layers * static_cast<double>(pass.sequences) * keys * q.index_dim * 2,
                   layers * rows * keys * q.index_heads * q.index_dim, layers});
}

void AddStates(const ModelSpec& spec, const PassShape& pass, std::vector<PartWork>& parts) {
  const GdnConfig& g = spec.gdn;
  constexpr double kChunk = 64;
  const double state = double{1} * g.value_heads * g.key_dim * g.value_dim;
  const double layers = spec.GdnLayers();
  // Rows of one sequence meet each other in chunks before they meet the state.
  const bool chunks = pass.rows > pass.sequences;
  const double meet = chunks ? kChunk * g.value_heads * (g.key_dim + g.value_dim) : 0;
  parts.push_back({"recurrent_state", 2 * 4 * state * layers * static_cast<double>(pass.sequences),
                   (3 * state + meet) * layers * static_cast<double>(pass.rows), 0});
}

}  // namespace

std::vector<PartWork> WorkOf(const ModelSpec& spec, const std::vector<ModuleBytes>& modules,
                             const PassShape& pass) {
  std::vector<PartWork> parts;
  for (const ModuleBytes& module : modules) {
    if (module.draft || IsLookedUp(module.module)) continue;
    PartWork work = ProductWork(spec, module, pass);
    const auto same = std::ranges::find(parts, work.part, &PartWork::part);
    if (same != parts.end()) {
      same->bytes += work.bytes;
      same->macs += work.macs;
      continue;
    }
    work.calls = CallsOf(spec, module.module);
    if (module.module == WeightModule::kHyperConnections) work.moved = StreamBytes(spec, pass.rows);
    parts.push_back(std::move(work));
  }
  AddCaches(spec, pass, parts);
  AddStates(spec, pass, parts);
  return parts;
}

PassTime TimeOf(const std::vector<PartWork>& work, const Rates& rates) {
  PassTime time;
  for (const PartWork& part : work) {
    const double reading = rates.read > 0 ? part.bytes / rates.read : 0;
    const double multiplying = rates.matrix > 0 ? part.macs / rates.matrix : 0;
    const double moving = rates.copy > 0 ? part.moved / (2 * rates.copy) : 0;
    const double seconds = std::max(reading, multiplying) + part.calls * rates.dispatch + moving;
    time.parts.push_back({part.part, seconds});
    time.seconds += seconds;
  }
  return time;
}

}  // namespace kv8
