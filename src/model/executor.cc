#include "model/executor.h"

#include "model/cpu_executor.h"

namespace kv8 {
namespace {

Result<void> CheckDevice(DeviceKind device) {
  if (device == DeviceKind::kCpu) return {};
  return Error{Code::kUnsupported, "no model runs on the GPU yet", "--device cuda",
               "run with --device cpu"};
}

}  // namespace

Result<ExecutorMemory> PlanExecutor(DeviceKind device, const LoadedModel& model,
                                    const ExecutorLimits& limits) {
  KV8_RETURN_IF_ERROR(CheckDevice(device));
  return CpuExecutor::Plan(model, limits);
}

Result<std::unique_ptr<Executor>> CreateExecutor(DeviceKind device, const LoadedModel& model,
                                                 const ExecutorLimits& limits) {
  KV8_RETURN_IF_ERROR(CheckDevice(device));
  return CpuExecutor::Create(model, limits);
}

}  // namespace kv8
