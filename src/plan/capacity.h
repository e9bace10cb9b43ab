// What a model takes on each rank of a machine, and the cache that is left room for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "family/shard.h"
#include "family/tensor_source.h"
#include "kv8/engine.h"
#include "kv8/error.h"
#include "plan/device_list.h"
#include "plan/module_bytes.h"
#include "tensor/model_weights.h"

namespace kv8 {

/// Where rows that are looked up lie.
enum class Place { kAuto, kDevice, kHost, kDisk };

/// "device", "host", "disk".
std::string_view Name(Place place);

struct PlanRequest {
  ModelSpec spec;
  /// Lengths, sequences, drafts, prefix cache, kind of device; kv_memory is that of each rank. No
  /// path, scale or tokenizer is looked at.
  EngineOptions options;
  ShardCounts shards;
  std::vector<PlannedDevice> devices;  // one per rank, stage after stage; none: no limit
  std::optional<std::int64_t> memory;  // of each device, at most
  /// What the driver takes of a GPU for its context, code and graphs: no part of the engine's own
  /// sums, and not known to the byte.
  std::int64_t code_and_graphs = 0;
  /// kAuto: on the device if the cache fits beside them, else on the host, as the engine does. On a
  /// CPU: on disk, with a cache of rows, for tables above half of the budget (without one, of this
  /// machine's memory), else mapped.
  Place table = Place::kAuto;
  Place embeddings = Place::kAuto;
};

/// The part of one stage's ranks, which are alike.
struct StageModel {
  Shard shard;
  Model model;
  std::vector<ModuleBytes> modules;
};

/// What one rank of a stage takes.
struct StagePlan {
  MemoryPlan memory;  // the engine's own; tables count where they are on the device
  std::int64_t max_num_batched_tokens = 0;
  std::int64_t embeddings = 0, ngram_table = 0;  // wherever they lie
  Place embeddings_in = Place::kDevice, table_in = Place::kDevice;
  std::int64_t code_and_graphs = 0;
  std::int64_t mapped = 0;  // weight files that a CPU computes on, tables on disk left out
  std::int64_t on_device = 0, on_host = 0, on_disk = 0;  // sums; a CPU's device is the host
  std::optional<std::int64_t> budget;                    // of on_device
};

/// What does not fit, and what would.
struct Misfit {
  int stage = 0;
  std::int64_t needed = 0;  // on the device, with one sequence's cache
  std::int64_t budget = 0;
  std::string largest;  // owner
  std::int64_t largest_bytes = 0;
  std::string remedy;
};

/// The outcome for one type of cache.
struct CapacityPlan {
  KvDType dtype = KvDType::kFp16;
  std::int64_t pages = 0;  // per layer, the same in every stage
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;  // of max_model_len, by their pages; may exceed max_num_seqs
  std::vector<StagePlan> stages;
  std::optional<Misfit> misfit;
};

/// Binds the first rank of every stage. Errors: those of ShardOf and BindModel.
Result<std::vector<StageModel>> BindStages(const PlanRequest& request, const TensorSource& source);

/// Errors: those of SetUp.
Result<CapacityPlan> PlanCapacity(const PlanRequest& request, const std::vector<StageModel>& stages,
                                  KvDType dtype);

/// Tokens of the cache in a pool of `pool_bytes` on each rank that also holds the states and
/// rollbacks of all sequences, as a pool of vLLM's does.
std::int64_t TokensWithStates(const CapacityPlan& plan, std::int64_t pool_bytes);
/// Bytes of that pool as planned, of the rank that has the most.
std::int64_t PoolWithStates(const CapacityPlan& plan);

/// Reasons why this kv8 cannot run what was planned, though it can size it; none: it runs.
std::vector<std::string> NotRunYet(const PlanRequest& request,
                                   const std::vector<StageModel>& stages);

}  // namespace kv8
