// What the model takes on the GPU, to the byte, before anything is taken.
#pragma once

#include "device/device.h"
#include "model/cuda/device_state.h"
#include "model/cuda/device_workspace.h"
#include "model/executor.h"

namespace kv8::cuda {

/// A GPU's backends. The second and third take activations as two parts of FP16 into products, the
/// first as one: see LinearArgs. The third is the V100's code, for tests.
inline constexpr std::string_view kNativeBackend = "native", kPreciseBackend = "precise",
                                  kSm70Backend = "sm70";

/// Buffers that a run with these limits needs.
WorkspaceSize WorkspaceSizeFor(const ExecutorLimits& limits);

/// Buffers of a pass and what describes its rows.
std::int64_t ActivationBytes(const ModelSpec& spec, const ExecutorLimits& limits);

struct DeviceMemoryPlan {
  std::int64_t weights = 0;
  std::int64_t tables = 0;  // embedding and n-gram tables; may stay in host memory
  std::int64_t pools = 0;
  StateMemory states;
  std::int64_t activations = 0;  // buffers of a pass and what describes its rows

  /// Errors: kUnsupported for weights or a cache that the GPU's ops do not have.
  static Result<DeviceMemoryPlan> For(const Model& model, const ExecutorLimits& limits);
  /// The same for what they do not have yet, too.
  static DeviceMemoryPlan SizesOf(const Model& model, const ExecutorLimits& limits);

  ExecutorMemory ByOwner(bool tables_on_host) const;
  std::int64_t total(bool tables_on_host) const {
    return weights + (tables_on_host ? 0 : tables) + pools + states.total() + activations;
  }
  /// Errors: kResourceExhausted with every owner's bytes.
  Result<void> CheckFits(bool tables_on_host, const DeviceMemoryInfo& now,
                         const Device& device) const;

 private:
  /// `runs` says whether the kernels can take the weights.
  static DeviceMemoryPlan Size(const Model& model, const ExecutorLimits& limits,
                               Result<void>& runs);
};

}  // namespace kv8::cuda
