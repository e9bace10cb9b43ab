#include "model/executor.h"

#include "model/cpu/cpu_executor.h"
#include "model/cuda/cuda_executor.h"
#include "model/cuda/device_memory_plan.h"
#include "ops/limits.h"

namespace kv8 {
namespace {

Error NoObserver() {
  return Error{Code::kUnsupported, "a GPU shows no values inside of a pass", "observer",
               "observe on the CPU"};
}

}  // namespace

Result<ExecutorMemory> PlanExecutor(DeviceKind device, const Model& model,
                                    const ExecutorLimits& limits) {
  KV8_RETURN_IF_ERROR(CheckLimits(model.spec, device));
  if (limits.observer != nullptr && device == DeviceKind::kCuda) return NoObserver();
  if (device == DeviceKind::kCuda) return cuda::CudaExecutor::Plan(model, limits);
  return CpuExecutor::Plan(model, limits);
}

Result<ExecutorMemory> SizeExecutor(DeviceKind device, const Model& model,
                                    const ExecutorLimits& limits) {
  if (device == DeviceKind::kCuda) return cuda::CudaExecutor::SizesOf(model, limits);
  return CpuExecutor::Plan(model, limits);
}

std::int64_t GpuActivationBytes(const ModelSpec& spec, const ExecutorLimits& limits) {
  return cuda::ActivationBytes(spec, limits);
}

Result<std::unique_ptr<Executor>> CreateExecutor(DeviceKind device, const Model& model,
                                                 const ExecutorLimits& limits) {
  KV8_RETURN_IF_ERROR(CheckLimits(model.spec, device));
  if (limits.observer != nullptr && device == DeviceKind::kCuda) return NoObserver();
  if (device == DeviceKind::kCuda) return cuda::CudaExecutor::Create(model, limits);
  return CpuExecutor::Create(model, limits);
}

}  // namespace kv8
