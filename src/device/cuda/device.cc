#include "device/device.h"

#include <fmt/format.h>

#include <utility>

#include "device/cuda/driver.h"

namespace kv8 {
namespace {

Error NoSuchDevice(int ordinal, std::size_t count) {
  return {Code::kInvalidArgument,
          fmt::format("there is no GPU {}, only {} of them", ordinal, count), "device",
          count == 0 ? "" : fmt::format("use 0 to {}", count - 1)};
}

Result<DeviceInfo> Describe(const DriverApi& driver, int ordinal, int version) {
  DeviceInfo info{.ordinal = ordinal, .driver_version = version};
  int device = 0;
  KV8_RETURN_IF_ERROR(
      Check(driver, driver.device_get(&device, ordinal), fmt::format("find GPU {}", ordinal)));
  char name[256] = "";
  std::size_t bytes = 0;
  int major = 0, minor = 0;
  DriverStatus status = driver.device_name(name, sizeof name, device);
  const auto next = [&](DriverStatus other) {
    if (status == DriverStatus::kSuccess) status = other;
  };
  next(driver.device_memory(&bytes, device));
  next(driver.device_attribute(&major, DriverAttribute::kCapabilityMajor, device));
  next(driver.device_attribute(&minor, DriverAttribute::kCapabilityMinor, device));
  next(driver.device_attribute(&info.multiprocessors, DriverAttribute::kMultiprocessors, device));
  next(driver.device_attribute(&info.max_shared_bytes, DriverAttribute::kMaxSharedBytes, device));
  KV8_RETURN_IF_ERROR(Check(driver, status, fmt::format("describe GPU {}", ordinal)));
  info.name = name;
  info.memory_bytes = static_cast<std::int64_t>(bytes);
  info.architecture = 10 * major + minor;
  return info;
}

/// Frees through `release` what `handle` holds and leaves it empty.
template <class Release>
void Drop(const DriverApi* driver, void*& handle, Release release) {
  if (driver != nullptr && handle != nullptr) release(std::exchange(handle, nullptr));
}

}  // namespace

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept {
  *this = std::move(other);
}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(on_host_, other.on_host_);
  return *this;
}
DeviceMemory::~DeviceMemory() {
  void* address = data_;
  Drop(driver_, address, on_host_ ? driver_->host_free : driver_ ? driver_->memory_free : nullptr);
}

DeviceEvent::DeviceEvent(DeviceEvent&& other) noexcept {
  *this = std::move(other);
}
DeviceEvent& DeviceEvent::operator=(DeviceEvent&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(event_, other.event_);
  return *this;
}
DeviceEvent::~DeviceEvent() {
  if (driver_ != nullptr) Drop(driver_, event_, driver_->event_destroy);
}

Result<float> DeviceEvent::MillisecondsSince(const DeviceEvent& start) const {
  float milliseconds = 0;
  KV8_RETURN_IF_ERROR(Check(*driver_, driver_->event_elapsed(&milliseconds, start.event_, event_),
                            "read the time between two events"));
  return milliseconds;
}

Result<void> DeviceEvent::Synchronize() const {
  return Check(*driver_, driver_->event_synchronize(event_), "wait for an event");
}

DeviceGraph::DeviceGraph(DeviceGraph&& other) noexcept {
  *this = std::move(other);
}
DeviceGraph& DeviceGraph::operator=(DeviceGraph&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(executable_, other.executable_);
  return *this;
}
DeviceGraph::~DeviceGraph() {
  if (driver_ != nullptr) Drop(driver_, executable_, driver_->executable_destroy);
}

Result<void> DeviceKernel::AllowSharedMemory(int bytes) {
  return Check(
      *driver_,
      driver_->function_set(function_, DriverFunctionAttribute::kDynamicSharedBytesMax, bytes),
      fmt::format("give {} {} bytes of shared memory", name_, bytes));
}

Result<int> DeviceKernel::MaxThreads() const {
  int threads = 0;
  KV8_RETURN_IF_ERROR(Check(
      *driver_, driver_->function_get(&threads, DriverFunctionAttribute::kMaxThreads, function_),
      fmt::format("ask how many threads {} may have", name_)));
  return threads;
}

DeviceModule::DeviceModule(DeviceModule&& other) noexcept {
  *this = std::move(other);
}
DeviceModule& DeviceModule::operator=(DeviceModule&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(module_, other.module_);
  std::swap(driver_version_, other.driver_version_);
  return *this;
}
DeviceModule::~DeviceModule() {
  if (driver_ != nullptr) Drop(driver_, module_, driver_->module_unload);
}

Result<DeviceKernel> DeviceModule::Kernel(std::string_view name) const {
  DeviceKernel kernel;
  kernel.driver_ = driver_;
  kernel.name_ = name;
  const std::string text(name);
  const DriverStatus status = driver_->module_function(&kernel.function_, module_, text.c_str());
  if (status == DriverStatus::kNotFound) {
    return Error{Code::kNotFound, "the device code has no kernel " + text, "device code", ""};
  }
  KV8_RETURN_IF_ERROR(Check(*driver_, status, "find kernel " + text));
  int architecture = 0;
  KV8_RETURN_IF_ERROR(
      Check(*driver_,
            driver_->function_get(&architecture, DriverFunctionAttribute::kCodeArchitecture,
                                  kernel.function_),
            "ask what kernel " + text + " was compiled for"));
  kernel.begins_early_ = BeginsEarly(driver_version_, architecture);
  return kernel;
}

Result<std::vector<DeviceInfo>> Device::List() {
  KV8_ASSIGN_OR_RETURN(const DriverApi* driver, LoadDriver());
  int version = 0, count = 0;
  KV8_RETURN_IF_ERROR(Check(*driver, driver->driver_version(&version), "read the version"));
  KV8_RETURN_IF_ERROR(Check(*driver, driver->device_count(&count), "count the GPUs"));
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    KV8_ASSIGN_OR_RETURN(DeviceInfo info, Describe(*driver, i, version));
    devices.push_back(std::move(info));
  }
  return devices;
}

Result<std::unique_ptr<Device>> Device::Open(int ordinal) {
  KV8_ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, List());
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices.size()) {
    return NoSuchDevice(ordinal, devices.size());
  }
  const DeviceInfo& info = devices[static_cast<std::size_t>(ordinal)];
  KV8_RETURN_IF_ERROR(
      CheckArchitecture(fmt::format("GPU {} ({})", ordinal, info.name), info.architecture));
  KV8_ASSIGN_OR_RETURN(const DriverApi* driver, LoadDriver());
  void* context = nullptr;
  const std::string action = fmt::format("open GPU {} ({})", ordinal, info.name);
  KV8_RETURN_IF_ERROR(Check(*driver, driver->context_retain(&context, ordinal), action));
  std::unique_ptr<Device> device(new Device(*driver, info, context));
  KV8_RETURN_IF_ERROR(device->AttachThread());
  return device;
}

Result<void> Device::AttachThread() {
  const DriverStatus status = driver_.context_set(context_);
  if (status == DriverStatus::kSuccess) return {};
  return DriverError(driver_, status, fmt::format("use GPU {} ({})", info_.ordinal, info_.name));
}

Device::~Device() {
  driver_.context_release(info_.ordinal);
}

Result<DeviceMemoryInfo> Device::Memory() const {
  std::size_t free = 0, total = 0;
  KV8_RETURN_IF_ERROR(
      Check(driver_, driver_.memory_info(&free, &total), "read how much memory is free"));
  return DeviceMemoryInfo{static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

Result<DeviceMemory> Device::Allocate(std::int64_t bytes, std::string_view purpose) {
  DeviceMemory memory;
  void* address = nullptr;
  const DriverStatus status =
      driver_.memory_allocate(&address, static_cast<std::size_t>(bytes == 0 ? 1 : bytes));
  if (status == DriverStatus::kOutOfMemory) {
    KV8_ASSIGN_OR_RETURN(const DeviceMemoryInfo now, Memory());
    return Error{Code::kResourceExhausted,
                 fmt::format("{} needs {} bytes, {} of {} are free", purpose, bytes, now.free_bytes,
                             now.total_bytes),
                 fmt::format("GPU {} ({})", info_.ordinal, info_.name),
                 "ask for less, or see with nvidia-smi who else uses the GPU"};
  }
  KV8_RETURN_IF_ERROR(
      Check(driver_, status, fmt::format("allocate {} bytes for {}", bytes, purpose)));
  memory.driver_ = &driver_;
  memory.data_ = static_cast<std::byte*>(address);
  memory.bytes_ = bytes;
  return memory;
}

Result<DeviceMemory> Device::AllocateHost(std::int64_t bytes, std::string_view purpose) {
  DeviceMemory memory;
  void* address = nullptr;
  const DriverStatus status =
      driver_.host_allocate(&address, static_cast<std::size_t>(bytes == 0 ? 1 : bytes));
  KV8_RETURN_IF_ERROR(
      Check(driver_, status, fmt::format("lock {} bytes of host memory for {}", bytes, purpose)));
  memory.driver_ = &driver_;
  memory.data_ = static_cast<std::byte*>(address);
  memory.bytes_ = bytes;
  memory.on_host_ = true;
  return memory;
}

Result<DeviceStream> Device::CreateStream() {
  constexpr unsigned kNonBlocking = 1;  // no order with the default stream
  DeviceStream stream;
  KV8_RETURN_IF_ERROR(
      Check(driver_, driver_.stream_create(&stream.stream_, kNonBlocking), "create a stream"));
  stream.driver_ = &driver_;
  return stream;
}

Result<DeviceEvent> Device::CreateEvent() {
  DeviceEvent event;
  KV8_RETURN_IF_ERROR(Check(driver_, driver_.event_create(&event.event_, 0), "create an event"));
  event.driver_ = &driver_;
  return event;
}

Result<DeviceModule> Device::LoadModule(std::span<const std::byte> image, std::string_view name) {
  DeviceModule module;
  KV8_RETURN_IF_ERROR(Check(driver_, driver_.module_load(&module.module_, image.data()),
                            fmt::format("load the code of {} on GPU {} ({}, architecture {})", name,
                                        info_.ordinal, info_.name, info_.architecture)));
  module.driver_ = &driver_;
  module.driver_version_ = info_.driver_version;
  return module;
}

}  // namespace kv8
