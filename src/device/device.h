// One accelerator: its memory, streams, events, graphs and code. No type of any vendor shows here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv8/error.h"

namespace kv8 {

struct DriverApi;

/// What a device is.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int architecture = 0;  // 10 * major + minor of the compute capability: 70, 75, 80, 86, 89, 90
  int multiprocessors = 0;
  int max_shared_bytes = 0;  // that one thread block may have
  std::int64_t memory_bytes = 0;
  int driver_version = 0;  // 1000 * major + 10 * minor of the newest toolkit that the driver knows
};

struct DeviceMemoryInfo {
  std::int64_t free_bytes = 0;
  std::int64_t total_bytes = 0;
};

/// Device memory or pinned host memory. Move-only; frees itself. Must not outlive its Device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <class T>
  T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  friend class Device;
  const DriverApi* driver_ = nullptr;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
  bool on_host_ = false;
};

/// A point in a stream's work, with its time.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  DeviceEvent(DeviceEvent&& other) noexcept;
  DeviceEvent& operator=(DeviceEvent&& other) noexcept;
  ~DeviceEvent();

  /// Waits until it has happened.
  Result<void> Synchronize() const;
  /// Milliseconds from `start` to this event; both must have happened.
  Result<float> MillisecondsSince(const DeviceEvent& start) const;

 private:
  friend class Device;
  friend class DeviceStream;
  const DriverApi* driver_ = nullptr;
  void* event_ = nullptr;
};

/// Captured work, ready to be launched any number of times.
class DeviceGraph {
 public:
  DeviceGraph() = default;
  DeviceGraph(DeviceGraph&& other) noexcept;
  DeviceGraph& operator=(DeviceGraph&& other) noexcept;
  ~DeviceGraph();

 private:
  friend class DeviceStream;
  const DriverApi* driver_ = nullptr;
  void* executable_ = nullptr;
};

/// A function of a DeviceModule. Copyable; must not outlive its module.
class DeviceKernel {
 public:
  /// Raises the limit of dynamic shared memory of one launch above 48 KiB.
  Result<void> AllowSharedMemory(int bytes);
  /// Threads that a thread block may have, as it was compiled.
  Result<int> MaxThreads() const;

 private:
  friend class DeviceModule;
  friend class DeviceStream;
  const DriverApi* driver_ = nullptr;
  void* function_ = nullptr;
  std::string_view name_;
  bool begins_early_ = false;
};

/// Code loaded onto a device. Move-only.
class DeviceModule {
 public:
  DeviceModule() = default;
  DeviceModule(DeviceModule&& other) noexcept;
  DeviceModule& operator=(DeviceModule&& other) noexcept;
  ~DeviceModule();

  /// `name` must outlive the kernel. Errors: kNotFound.
  Result<DeviceKernel> Kernel(std::string_view name) const;

 private:
  friend class Device;
  const DriverApi* driver_ = nullptr;
  void* module_ = nullptr;
  int driver_version_ = 0;
};

/// Thread blocks of one launch.
struct LaunchShape {
  std::int64_t grid_x = 1;
  std::int64_t grid_y = 1;  // at most 65535
  std::int64_t grid_z = 1;  // at most 65535
  int threads = 1;          // of each thread block
  int shared_bytes = 0;
};

/// Work that runs in order. Every call returns at once but Synchronize. A failed device fails every
/// later call (kIo, naming the device); nothing hangs.
class DeviceStream {
 public:
  DeviceStream() = default;
  DeviceStream(DeviceStream&& other) noexcept;
  DeviceStream& operator=(DeviceStream&& other) noexcept;
  ~DeviceStream();

  /// Copies between any two of host and device memory.
  Result<void> Copy(void* to, const void* from, std::int64_t bytes);
  Result<void> Fill(void* to, std::byte value, std::int64_t bytes);
  /// `parameters` points to the kernel's only parameter, which is copied. A kernel that was
  /// compiled for architecture 90 or later may begin before the one in front of it has ended: it
  /// must wait for that itself (AfterEarlierKernels), before all else.
  Result<void> Launch(const DeviceKernel& kernel, const LaunchShape& shape, const void* parameters);
  Result<void> Record(const DeviceEvent& event);
  Result<void> Synchronize();

  /// Between the two, work is recorded instead of run.
  Result<void> BeginCapture();
  Result<DeviceGraph> EndCapture();
  Result<void> Launch(const DeviceGraph& graph);

 private:
  friend class Device;
  const DriverApi* driver_ = nullptr;
  void* stream_ = nullptr;
};

/// One opened accelerator. All calls that concern it must come from one thread at a time.
class Device {
 public:
  /// The accelerators of this machine.
  /// Errors: kUnsupported: no driver, a driver too old, no device.
  static Result<std::vector<DeviceInfo>> List();

  /// Errors: those of List; kInvalidArgument: no such ordinal; kUnsupported: an architecture below
  /// 70; kResourceExhausted: somebody else holds the device or its memory.
  static Result<std::unique_ptr<Device>> Open(int ordinal = 0);
  ~Device();

  const DeviceInfo& info() const { return info_; }
  /// Lets the calling thread use the device; Open has done so for its own.
  Result<void> AttachThread();
  Result<DeviceMemoryInfo> Memory() const;

  /// `purpose` is named when there is too little: kResourceExhausted with requested, free and total
  /// bytes.
  Result<DeviceMemory> Allocate(std::int64_t bytes, std::string_view purpose);
  /// Pinned host memory: copies from and to it run beside other work.
  Result<DeviceMemory> AllocateHost(std::int64_t bytes, std::string_view purpose);
  Result<DeviceStream> CreateStream();
  Result<DeviceEvent> CreateEvent();
  /// `image`: a cubin, a fatbin, or zero-terminated PTX, which the driver compiles now. `name` is
  /// for messages. Errors: kUnsupported when the image holds nothing for this device or driver.
  Result<DeviceModule> LoadModule(std::span<const std::byte> image, std::string_view name);

 private:
  Device(const DriverApi& driver, DeviceInfo info, void* context)
      : driver_(driver), info_(std::move(info)), context_(context) {}

  const DriverApi& driver_;
  DeviceInfo info_;
  void* context_;
};

}  // namespace kv8
