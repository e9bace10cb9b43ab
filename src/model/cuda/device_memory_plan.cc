#include "model/cuda/device_memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/cuda/pass_inputs.h"
#include "model/cuda/weight_placer.h"

namespace kv8::cuda {

WorkspaceSize WorkspaceSizeFor(const ExecutorLimits& limits) {
  return {.rows = PassInputs::MaxRows(limits),
          .prefill_slices = limits.slots,
          .logit_rows = PaddedRows(limits.logit_rows),
          .max_selection_blocks = limits.sequence_pages * limits.cache.index.keys_per_page,
          .with_draft = limits.with_draft,
          .observed_heads = limits.observe_kv ? ObservedHeads(limits.cache) : 0,
          .activation_parts = limits.backend.empty() || limits.backend == kNativeBackend ? 1 : 2};
}

std::int64_t ActivationBytes(const ModelSpec& spec, const ExecutorLimits& limits) {
  Arena work;
  DeviceWorkspace::Take(work, spec, WorkspaceSizeFor(limits));
  return work.bytes() + PassInputs::Plan(limits);
}

Result<DeviceMemoryPlan> DeviceMemoryPlan::For(const Model& model, const ExecutorLimits& limits) {
  if (limits.cache.kv.dtype == KvDType::kFp32) {
    return Error{Code::kUnsupported, "the GPU has FP16 and E4M3 caches, not FP32",
                 "--kv-cache-dtype fp32", "use fp16 or fp8_e4m3, or run with --device cpu"};
  }
  Result<void> runs;
  const DeviceMemoryPlan plan = Size(model, limits, runs);
  KV8_RETURN_IF_ERROR(runs);
  return plan;
}

DeviceMemoryPlan DeviceMemoryPlan::SizesOf(const Model& model, const ExecutorLimits& limits) {
  Result<void> runs;
  return Size(model, limits, runs);
}

DeviceMemoryPlan DeviceMemoryPlan::Size(const Model& model, const ExecutorLimits& limits,
                                        Result<void>& runs) {
  Arena arrays, tables;
  WeightPlacer placer(arrays, tables);
  placer.Place(model, limits.with_draft);
  runs = placer.Check();
  return DeviceMemoryPlan{
      .weights = arrays.bytes(),
      .tables = tables.bytes(),
      .pools = limits.cache.kv_bytes() + limits.cache.index_bytes(),
      .states = DeviceState::Plan(StateLayout::For(model.spec, limits.with_draft), limits),
      .activations = ActivationBytes(model.spec, limits)};
}

ExecutorMemory DeviceMemoryPlan::ByOwner(bool tables_on_host) const {
  return {.weights = weights,
          .tables = tables_on_host ? 0 : tables,
          .states = states.states,
          .rollback = states.rollback,
          .activations = activations + states.other};
}

Result<void> DeviceMemoryPlan::CheckFits(bool tables_on_host, const DeviceMemoryInfo& now,
                                         const Device& device) const {
  if (total(tables_on_host) <= now.free_bytes) return {};
  return Error{
      Code::kResourceExhausted,
      fmt::format("{} bytes are needed: weights {}, cache {}, states {}, activations {}, with "
                  "tables of {} in host memory; {} of {} are free for it",
                  total(tables_on_host), weights, pools, states.total(), activations, tables,
                  now.free_bytes, now.total_bytes),
      fmt::format("GPU {} ({})", device.info().ordinal, device.info().name),
      "lower --max-model-len, --max-num-seqs or --kv-memory, use --kv-cache-dtype fp8_e4m3, raise "
      "--device-memory if you gave it, or see with nvidia-smi who else uses the GPU"};
}

}  // namespace kv8::cuda
