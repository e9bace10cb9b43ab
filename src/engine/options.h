// Engine options with every default filled in, checked against the checkpoint.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/scheduler.h"
#include "kv8/engine.h"
#include "kvtier/kv_unit.h"
#include "model/executor.h"
#include "tensor/model_spec.h"

namespace kv8 {

/// What scheduler and executor are built with.
struct EngineSetup {
  std::int64_t max_model_len = 0;
  DeviceKind device = DeviceKind::kCpu;
  std::int64_t preempted_bytes = 0;  // most that preempted sequences hold outside of the pools
  std::int64_t kv_host_bytes = 0;    // of the tier in host memory; 0: none
  SchedulerLimits scheduler;
  ExecutorLimits executor;
};

/// With the default filled in.
int ThreadsOf(const EngineOptions& options);

/// What can be checked before anything is opened. Errors: kInvalidArgument, naming the flag.
Result<void> CheckOptions(const EngineOptions& options);

/// For a model of these dimensions, or a rank's part of one; the scales are the caller's to add.
/// Errors: kInvalidArgument for limits that the checkpoint contradicts; kResourceExhausted for a
/// kv_memory below one sequence of max_model_len, with both numbers.
Result<EngineSetup> SetUp(const EngineOptions& options, const ModelSpec& spec);

/// Bytes of n-gram rows that are kept of tables on disk: 256 MiB, which are 800,000 rows of the
/// released model in BF16, those of 50,000 tokens; an eighth of small tables.
std::int64_t DefaultTableCache(std::int64_t table_bytes);

/// What ExecutorLimits::table_cache is for tables of `table_bytes` on a machine with `memory`
/// bytes.
std::optional<std::int64_t> TableCacheOf(const EngineOptions& options, std::int64_t table_bytes,
                                         std::int64_t memory);

/// Sizes of what moves between the tiers of the cache.
UnitLayout UnitLayoutOf(const KvCachePlan& cache, const ModelSpec& spec, bool with_draft);

/// What an engine with this setup takes. `executor` says what the executor's part is.
MemoryPlan PlanMemory(const EngineSetup& setup, const ModelSpec& spec,
                      const ExecutorMemory& executor);

}  // namespace kv8
