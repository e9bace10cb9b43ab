#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace kv8 {
namespace {

constexpr std::string_view kWhere = "CUDA driver";

std::string Version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Looks one function up and remembers the first that is missing.
class Lookup {
 public:
  explicit Lookup(void* library) : library_(library) {}
  template <class Function>
  void operator()(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void FindContextAndMemory(DriverApi& api, Lookup& find) {
  find(api.init, "cuInit");
  find(api.driver_version, "cuDriverGetVersion");
  find(api.error_name, "cuGetErrorName");
  find(api.error_text, "cuGetErrorString");
  find(api.device_count, "cuDeviceGetCount");
  find(api.device_get, "cuDeviceGet");
  find(api.device_name, "cuDeviceGetName");
  find(api.device_memory, "cuDeviceTotalMem_v2");
  find(api.device_attribute, "cuDeviceGetAttribute");
  find(api.context_retain, "cuDevicePrimaryCtxRetain");
  find(api.context_release, "cuDevicePrimaryCtxRelease_v2");
  find(api.context_set, "cuCtxSetCurrent");
  find(api.memory_info, "cuMemGetInfo_v2");
  find(api.memory_allocate, "cuMemAlloc_v2");
  find(api.memory_free, "cuMemFree_v2");
  find(api.host_allocate, "cuMemAllocHost_v2");
  find(api.host_free, "cuMemFreeHost");
  find(api.copy, "cuMemcpyAsync");
  find(api.fill, "cuMemsetD8Async");
}

void FindStreamsAndCode(DriverApi& api, Lookup& find) {
  find(api.stream_create, "cuStreamCreate");
  find(api.stream_destroy, "cuStreamDestroy_v2");
  find(api.stream_synchronize, "cuStreamSynchronize");
  find(api.capture_begin, "cuStreamBeginCapture_v2");
  find(api.capture_end, "cuStreamEndCapture");
  find(api.graph_instantiate, "cuGraphInstantiateWithFlags");
  find(api.graph_destroy, "cuGraphDestroy");
  find(api.graph_launch, "cuGraphLaunch");
  find(api.executable_destroy, "cuGraphExecDestroy");
  find(api.event_create, "cuEventCreate");
  find(api.event_destroy, "cuEventDestroy_v2");
  find(api.event_record, "cuEventRecord");
  find(api.event_synchronize, "cuEventSynchronize");
  find(api.event_elapsed, "cuEventElapsedTime");
  find(api.module_load, "cuModuleLoadData");
  find(api.module_unload, "cuModuleUnload");
  find(api.module_function, "cuModuleGetFunction");
  find(api.function_get, "cuFuncGetAttribute");
  find(api.function_set, "cuFuncSetAttribute");
  find(api.launch, "cuLaunchKernelEx");
}

Result<DriverApi> FindDriver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{Code::kUnsupported, "no driver on this machine: libcuda.so.1 does not load",
                 std::string(kWhere), "install the NVIDIA driver, or use the CPU"};
  }
  DriverApi api{};
  Lookup find(library);
  FindContextAndMemory(api, find);
  FindStreamsAndCode(api, find);
  int version = 0;
  if (api.driver_version != nullptr) api.driver_version(&version);
  KV8_RETURN_IF_ERROR(CheckDriverVersion(version));
  if (find.missing() != nullptr) {
    return Error{Code::kUnsupported, fmt::format("the driver has no function {}", find.missing()),
                 std::string(kWhere), "install a complete NVIDIA driver"};
  }
  const DriverStatus status = api.init(0);
  if (status == DriverStatus::kNoDevice) {
    return Error{Code::kUnsupported, "the driver finds no GPU", std::string(kWhere),
                 "see what nvidia-smi prints and whether CUDA_VISIBLE_DEVICES hides it"};
  }
  if (status != DriverStatus::kSuccess) return DriverError(api, status, "start the driver");
  return api;
}

/// Statuses after which the device does no more work for this process.
bool IsLost(DriverStatus status) {
  switch (status) {
    case DriverStatus::kEccUncorrectable:
    case DriverStatus::kIllegalAddress:
    case DriverStatus::kLaunchTimeout:
    case DriverStatus::kAssert:
    case DriverStatus::kLaunchFailed:
      return true;
    default:
      return static_cast<int>(status) >= 714 && static_cast<int>(status) <= 718;
  }
}

}  // namespace

Result<const DriverApi*> LoadDriver() {
  static const Result<DriverApi> kDriver = FindDriver();
  if (!kDriver.ok()) return kDriver.error();
  return &kDriver.value();
}

Result<void> CheckDriverVersion(int version) {
  if (version >= kOldestDriver) return {};
  return Error{Code::kUnsupported,
               fmt::format("the driver supports CUDA {}, kv8 needs {} or later", Version(version),
                           Version(kOldestDriver)),
               std::string(kWhere), "update the NVIDIA driver to 525 or later"};
}

Result<void> CheckArchitecture(std::string_view device, int architecture) {
  if (architecture >= kOldestArchitecture) return {};
  return Error{
      Code::kUnsupported,
      fmt::format("its compute capability is {}.{}, kv8 has code from {}.{} on", architecture / 10,
                  architecture % 10, kOldestArchitecture / 10, kOldestArchitecture % 10),
      std::string(device), "use a V100 or a later GPU, or the CPU"};
}

Error DriverError(const DriverApi& driver, DriverStatus status, std::string_view action) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name != nullptr) driver.error_name(status, &name);
  if (driver.error_text != nullptr) driver.error_text(status, &text);
  const std::string what =
      fmt::format("cannot {}: {} ({})", action, text == nullptr ? "unknown error" : text,
                  name == nullptr ? fmt::to_string(static_cast<int>(status)) : name);
  const std::string where(kWhere);
  switch (status) {
    case DriverStatus::kOutOfMemory:
    case DriverStatus::kDevicesUnavailable:
      return {Code::kResourceExhausted, what, where,
              "see with nvidia-smi who uses the GPU, and end it or use another one"};
    case DriverStatus::kInvalidImage:
    case DriverStatus::kNoBinaryForGpu:
      return {Code::kUnsupported, what, where,
              "update the NVIDIA driver, or build kv8 with code for this GPU's architecture"};
    case DriverStatus::kUnsupportedPtxVersion:
      return {Code::kUnsupported, what, where, "update the NVIDIA driver"};
    default:
      return {Code::kIo, IsLost(status) ? "the GPU was lost: " + what : what, where,
              IsLost(status) ? "restart kv8; look for Xid lines in the kernel log" : ""};
  }
}

Result<void> Check(const DriverApi& driver, DriverStatus status, std::string_view action) {
  if (status == DriverStatus::kSuccess) return {};
  return DriverError(driver, status, action);
}

}  // namespace kv8
