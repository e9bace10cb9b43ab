#include "plan/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/machine_memory.h"
#include "device/arena.h"
#include "engine/options.h"
#include "family/bind_model.h"
#include "model/executor.h"
#include "plan/remedy.h"

namespace kv8 {
namespace {

bool OnGpu(const PlanRequest& request) {
  return request.options.device == DeviceKind::kCuda;
}

std::optional<std::int64_t> BudgetOf(const PlanRequest& request, int stage) {
  std::optional<std::int64_t> budget = request.memory;
  const auto ranks = static_cast<std::size_t>(request.shards.tensor);
  const std::size_t begin = static_cast<std::size_t>(stage) * ranks;
  for (std::size_t i = begin; i < std::min(begin + ranks, request.devices.size()); ++i) {
    const std::int64_t memory = request.devices[i].memory;
    budget = std::min(budget.value_or(memory), memory);
  }
  return budget;
}

std::int64_t CacheBytes(const MemoryPlan& memory) {
  return memory.kv + memory.index + memory.draft_kv + memory.draft_index;
}

/// Fills in where everything lies.
void Sum(const PlanRequest& request, const StageModel& stage, StagePlan& plan) {
  MemoryPlan& memory = plan.memory;
  const std::int64_t host = memory.host();
  plan.on_host = plan.on_disk = 0;
  const auto add = [&plan](Place place, std::int64_t bytes) {
    if (place == Place::kHost) plan.on_host += bytes;
    if (place == Place::kDisk) plan.on_disk += bytes;
    return place == Place::kDevice ? bytes : 0;
  };
  const std::int64_t tables =
      add(plan.table_in, plan.ngram_table) + add(plan.embeddings_in, plan.embeddings);
  if (OnGpu(request)) {
    memory.tables = tables;
    plan.on_host += host;
    plan.on_device = memory.total() - host + plan.code_and_graphs;
    return;
  }
  // The CPU's device is the host: a mapped file counts unless it is to stay on disk.
  plan.mapped = -plan.on_disk;
  for (const ModuleBytes& module : stage.modules) plan.mapped += module.bytes;
  plan.on_host = 0;
  plan.on_device = memory.total() + plan.mapped;
}

/// Bytes of rows that a CPU keeps of tables that it leaves on disk; nullopt: it has them mapped.
std::optional<std::int64_t> TableCache(const PlanRequest& request, std::int64_t table_bytes) {
  EngineOptions options = request.options;
  if (request.table == Place::kDisk && !options.table_cache) {
    options.table_cache = DefaultTableCache(table_bytes);
  } else if (request.table == Place::kDevice || request.table == Place::kHost) {
    options.table_cache = 0;
  }
  return TableCacheOf(options, table_bytes, BudgetOf(request, 0).value_or(MachineMemory()));
}

/// With `kv_memory`, or else the engine's default.
Result<StagePlan> SizeStage(const PlanRequest& request, const StageModel& stage, KvDType dtype,
                            std::optional<std::int64_t> kv_memory) {
  EngineOptions options = request.options;
  options.kv_dtype = dtype;
  options.kv_memory = kv_memory;
  KV8_ASSIGN_OR_RETURN(EngineSetup setup, SetUp(options, stage.model.spec));
  StagePlan plan{.max_num_batched_tokens = setup.scheduler.prefill_chunk};
  for (const ModuleBytes& module : stage.modules) {
    if (module.module == WeightModule::kNgramTable) plan.ngram_table += module.bytes;
  }
  setup.executor.table_cache = TableCache(request, plan.ngram_table);
  KV8_ASSIGN_OR_RETURN(const ExecutorMemory executor,
                       SizeExecutor(options.device, stage.model, setup.executor));
  plan.memory = PlanMemory(setup, stage.model.spec, executor);
  plan.embeddings = stage.model.weights.embed.bytes();
  if (OnGpu(request)) {
    // Arrays of a GPU begin at whole lines.
    Arena lines;
    lines.Take<std::byte>(plan.embeddings);
    plan.embeddings = lines.bytes();
    plan.ngram_table = plan.memory.tables - plan.embeddings;
    plan.code_and_graphs = request.code_and_graphs;
  }
  return plan;
}

Place Resolve(Place asked, bool tables_on_host) {
  if (asked != Place::kAuto) return asked;
  return tables_on_host ? Place::kHost : Place::kDevice;
}

/// Pages of one sequence, and one more where a prefix hit beside a draft head needs a copy.
std::int64_t SequencePages(const PlanRequest& request, const ModelSpec& spec) {
  const std::int64_t length =
      request.options.max_model_len > 0 ? request.options.max_model_len : spec.max_positions;
  const bool copies =
      request.options.speculative_tokens > 0 && request.options.prefix_cache_memory > 0;
  return CeilDiv(length, kPageTokens) + (copies ? 1 : 0);
}

/// Places the tables; what is left for the cache, or nothing without a budget.
std::optional<std::int64_t> Settle(const PlanRequest& request, const StageModel& stage, int number,
                                   StagePlan& plan) {
  plan.budget = BudgetOf(request, number);
  std::optional<std::int64_t> room;
  for (const bool on_host : {false, true}) {
    plan.table_in = Resolve(request.table, on_host);
    if (TableCache(request, plan.ngram_table)) plan.table_in = Place::kDisk;
    plan.embeddings_in = Resolve(request.embeddings, on_host);
    Sum(request, stage, plan);
    if (!plan.budget) return room;
    room = *plan.budget - (plan.on_device - CacheBytes(plan.memory));
    if (*room >= CacheBytes(plan.memory) || !OnGpu(request)) break;
  }
  return room;
}

Misfit MisfitOf(const StagePlan& plan, const StageModel& stage, int number, std::int64_t cache) {
  Misfit misfit{.stage = number, .budget = plan.budget.value_or(0)};
  misfit.needed = plan.on_device - CacheBytes(plan.memory) + cache;
  const auto offer = [&misfit](std::string_view owner, std::int64_t bytes) {
    if (bytes <= misfit.largest_bytes) return;
    misfit.largest = owner;
    misfit.largest_bytes = bytes;
  };
  for (const ModuleBytes& module : stage.modules) {
    const bool table = module.module == WeightModule::kNgramTable;
    const bool away =
        (table && plan.table_in != Place::kDevice) ||
        (module.module == WeightModule::kEmbeddings && plan.embeddings_in != Place::kDevice);
    if (!away) offer(Name(module.module), module.bytes);
  }
  offer("cache of one sequence", cache);
  offer("recurrent states", plan.memory.states + plan.memory.rollback);
  offer("workspace", plan.memory.activations + plan.memory.scratch);
  offer("code and graphs", plan.code_and_graphs);
  return misfit;
}

/// Everything but the remedy.
Result<CapacityPlan> Try(const PlanRequest& request, const std::vector<StageModel>& stages,
                         KvDType dtype) {
  CapacityPlan out{.dtype = dtype};
  std::optional<std::int64_t> pages = std::nullopt;
  const std::int64_t one = SequencePages(request, request.spec);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const int number = static_cast<int>(i);
    KV8_ASSIGN_OR_RETURN(StagePlan plan,
                         SizeStage(request, stages[i], dtype, request.options.kv_memory));
    const std::optional<std::int64_t> room = Settle(request, stages[i], number, plan);
    const std::int64_t page =
        CacheBytes(plan.memory) / std::max<std::int64_t>(plan.memory.pages, 1);
    const std::int64_t least = request.options.kv_memory ? CacheBytes(plan.memory) : one * page;
    if (room && *room < least && !out.misfit) {
      out.misfit = MisfitOf(plan, stages[i], number, least);
    }
    const bool fill = room && !request.options.kv_memory && page > 0;
    const std::int64_t own = fill ? std::max<std::int64_t>(*room, 0) / page : plan.memory.pages;
    if (page > 0) pages = std::min(pages.value_or(own), own);
    out.stages.push_back(plan);
  }
  if (out.misfit) return out;
  out.pages = pages.value_or(0);
  out.tokens = out.pages * kPageTokens;
  out.sequences = out.pages / one;
  return out;
}

}  // namespace

std::string_view Name(Place place) {
  return place == Place::kDisk ? "disk" : place == Place::kHost ? "host" : "device";
}

Result<std::vector<StageModel>> BindStages(const PlanRequest& request, const TensorSource& source) {
  std::vector<StageModel> stages;
  for (int stage = 0; stage < request.shards.pipeline; ++stage) {
    KV8_ASSIGN_OR_RETURN(const Shard shard, ShardOf(request.spec, request.shards, stage, 0));
    KV8_ASSIGN_OR_RETURN(Model model, BindModel(request.spec, source, shard));
    std::vector<ModuleBytes> modules =
        BytesByModule(model.weights, request.options.speculative_tokens > 0);
    stages.push_back({shard, std::move(model), std::move(modules)});
  }
  return stages;
}

Result<CapacityPlan> PlanCapacity(const PlanRequest& request, const std::vector<StageModel>& stages,
                                  KvDType dtype) {
  KV8_ASSIGN_OR_RETURN(CapacityPlan out, Try(request, stages, dtype));
  if (out.misfit) {
    out.misfit->remedy = RemedyFor(request, out, [&stages, dtype](const PlanRequest& other) {
      const auto tried = Try(other, stages, dtype);
      return tried.ok() && !tried->misfit;
    });
    return out;
  }
  // The engine's own plan of a cache of that size.
  for (std::size_t i = 0; i < stages.size(); ++i) {
    StagePlan& plan = out.stages[i];
    const std::int64_t page =
        CacheBytes(plan.memory) / std::max<std::int64_t>(plan.memory.pages, 1);
    if (page == 0 || plan.memory.pages == out.pages) continue;
    const StagePlan placed = plan;
    KV8_ASSIGN_OR_RETURN(plan, SizeStage(request, stages[i], dtype, out.pages * page));
    plan.table_in = placed.table_in;
    plan.embeddings_in = placed.embeddings_in;
    plan.budget = placed.budget;
    Sum(request, stages[i], plan);
  }
  return out;
}

std::int64_t TokensWithStates(const CapacityPlan& plan, std::int64_t pool_bytes) {
  std::optional<std::int64_t> pages;
  for (const StagePlan& stage : plan.stages) {
    if (stage.memory.pages == 0 || CacheBytes(stage.memory) == 0) continue;
    const std::int64_t room = pool_bytes - stage.memory.states - stage.memory.rollback;
    const std::int64_t own =
        std::max<std::int64_t>(room, 0) / (CacheBytes(stage.memory) / stage.memory.pages);
    pages = std::min(pages.value_or(own), own);
  }
  return pages.value_or(0) * kPageTokens;
}

std::int64_t PoolWithStates(const CapacityPlan& plan) {
  std::int64_t most = 0;
  for (const StagePlan& stage : plan.stages) {
    const MemoryPlan& memory = stage.memory;
    most = std::max(most, CacheBytes(memory) + memory.states + memory.rollback);
  }
  return most;
}

std::vector<std::string> NotRunYet(const PlanRequest& request,
                                   const std::vector<StageModel>& stages) {
  std::vector<std::string> reasons;
  if (request.shards.tensor * request.shards.pipeline > 1) {
    reasons.emplace_back("a model on several devices");
  }
  const bool disk = request.table == Place::kDisk && OnGpu(request);
  if (disk) reasons.emplace_back("an n-gram table on disk beside a GPU");
  if (OnGpu(request) && !disk && request.table != request.embeddings) {
    reasons.emplace_back("n-gram table and embeddings in different memories");
  }
  for (const StageModel& stage : stages) {
    const auto setup = SetUp(request.options, stage.model.spec);
    if (!setup.ok()) continue;
    const auto plan = PlanExecutor(request.options.device, stage.model, setup->executor);
    if (plan.ok()) continue;
    const std::string reason = plan.error().where + ": " + plan.error().what;
    if (std::ranges::count(reasons, reason) == 0) reasons.push_back(reason);
  }
  return reasons;
}

}  // namespace kv8
