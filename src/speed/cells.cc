#include "speed/cells.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/machine_memory.h"
#include "device/device.h"

namespace kv8 {
namespace {

constexpr std::int64_t kFewestPassRows = 512;  // where a pass may have more, a cell ends sooner

/// What the first of several requests may generate before the last reaches its server.
constexpr std::int64_t kTokensApart = 256;

std::int64_t CacheBytes(const MemoryPlan& plan) {
  return plan.kv + plan.index + plan.draft_kv + plan.draft_index;
}

EngineOptions ForCell(EngineOptions options, const Cell& cell, std::int64_t most_tokens) {
  options.max_model_len = cell.context + most_tokens;
  options.max_num_seqs = static_cast<int>(cell.sequences);
  return options;
}

/// What all engines take together for one cell, and the caches' part of each.
struct CellBytes {
  std::int64_t total = 0;
  std::vector<std::int64_t> caches;
};

Result<CellBytes> PlanCell(const BenchOptions& options, const Cell& cell) {
  CellBytes bytes;
  for (const ArmSpec& arm : ArmsOf(options)) {
    const auto plan =
        Engine::Plan(ForCell(OptionsOf(options, arm), cell, MostTokensOf(options, cell)));
    if (!plan.ok()) return plan.error();
    bytes.total += plan->total();
    bytes.caches.push_back(CacheBytes(*plan));
  }
  return bytes;
}

/// The engine's sizes rise to hold this cell too.
void Widen(const BenchOptions& options, const Cell& cell, std::int64_t cache,
           EngineOptions& engine) {
  engine.max_model_len = std::max(engine.max_model_len, cell.context + MostTokensOf(options, cell));
  engine.max_num_seqs = std::max(engine.max_num_seqs, static_cast<int>(cell.sequences));
  engine.kv_memory = std::max(engine.kv_memory.value_or(0), cache);
}

bool IsAboutLength(const Error& error) {
  return error.where == "max_position_embeddings";
}

}  // namespace

EngineOptions OptionsOf(const BenchOptions& options, const ArmSpec& arm) {
  EngineOptions engine = options.engine;
  engine.kv_dtype = arm.dtype;
  engine.scale_pack = arm.scale_pack;
  // Of the conversations alone: elsewhere nothing may be found again.
  engine.kv_memory = std::nullopt;
  engine.prefix_cache_memory = engine.kv_host_memory = engine.kv_disk_quota = 0;
  engine.kv_disk.clear();
  return engine;
}

std::vector<ArmSpec> ArmsOf(const BenchOptions& options) {
  std::vector<ArmSpec> arms = {options.a};
  if (options.b) arms.push_back(*options.b);
  return arms;
}

std::int64_t MemoryOf(const BenchOptions& options) {
  if (options.memory) return *options.memory;
  if (options.engine.device == DeviceKind::kCpu) return MachineMemory();
  if (options.engine.device_memory) return *options.engine.device_memory;
  const auto devices = Device::List();
  return devices.ok() && !devices->empty() ? devices->front().memory_bytes : 0;
}

std::int64_t MostTokensOf(const BenchOptions& options, const Cell& cell) {
  const std::int64_t asked = options.engine.max_num_batched_tokens;
  const std::int64_t pass = asked > 0 ? std::min(asked, kFewestPassRows) : kFewestPassRows;
  const std::int64_t apart = options.servers.empty() ? 0 : kTokensApart;
  return apart + MostTokens(cell, pass, options.engine.speculative_tokens);
}

Result<PlannedCells> PlanCells(const BenchOptions& options) {
  PlannedCells planned;
  const std::int64_t memory = MemoryOf(options);
  for (const std::int64_t context : options.contexts) {
    for (const std::int64_t sequences : options.sequences) {
      const Cell cell{.context = context, .sequences = sequences, .output = options.output};
      if (!options.servers.empty()) {  // whose room is not known
        planned.cells.push_back(cell);
        continue;
      }
      const auto bytes = PlanCell(options, cell);
      if (!bytes.ok()) {
        if (!IsAboutLength(bytes.error())) return bytes.error();
        planned.skipped.push_back({cell, bytes.error().what});
        continue;
      }
      if (bytes->total > memory) {
        planned.skipped.push_back(
            {cell, fmt::format("needs {} bytes, {} are there", bytes->total, memory)});
        continue;
      }
      if (planned.engines.empty()) {
        for (const ArmSpec& arm : ArmsOf(options)) {
          planned.engines.push_back(OptionsOf(options, arm));
        }
      }
      for (std::size_t i = 0; i < planned.engines.size(); ++i) {
        Widen(options, cell, bytes->caches[i], planned.engines[i]);
      }
      planned.cells.push_back(cell);
    }
  }
  return planned;
}

}  // namespace kv8
