#include <fmt/format.h>

#include <utility>

#include "device/cuda/driver.h"
#include "device/device.h"

namespace kv8 {

DeviceStream::DeviceStream(DeviceStream&& other) noexcept {
  *this = std::move(other);
}
DeviceStream& DeviceStream::operator=(DeviceStream&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(stream_, other.stream_);
  return *this;
}
DeviceStream::~DeviceStream() {
  if (stream_ != nullptr) driver_->stream_destroy(stream_);
}

Result<void> DeviceStream::Copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return {};
  return Check(*driver_, driver_->copy(to, from, static_cast<std::size_t>(bytes), stream_),
               fmt::format("copy {} bytes", bytes));
}

Result<void> DeviceStream::Fill(void* to, std::byte value, std::int64_t bytes) {
  if (bytes == 0) return {};
  return Check(*driver_,
               driver_->fill(to, std::to_integer<unsigned char>(value),
                             static_cast<std::size_t>(bytes), stream_),
               fmt::format("fill {} bytes", bytes));
}

Result<void> DeviceStream::Launch(const DeviceKernel& kernel, const LaunchShape& shape,
                                  const void* parameters) {
  if (shape.grid_x == 0 || shape.grid_y == 0 || shape.grid_z == 0) return {};
  void* arguments[] = {const_cast<void*>(parameters)};
  DriverLaunchAttribute early{.id = DriverLaunchAttribute::Id::kBeginsEarly, .value = {1}};
  const DriverLaunchConfig config{
      .grid = {static_cast<unsigned>(shape.grid_x), static_cast<unsigned>(shape.grid_y),
               static_cast<unsigned>(shape.grid_z)},
      .block = {static_cast<unsigned>(shape.threads), 1, 1},
      .shared_bytes = static_cast<unsigned>(shape.shared_bytes),
      .stream = stream_,
      .attributes = &early,
      .attribute_count = kernel.begins_early_ ? 1u : 0u};
  const DriverStatus status = driver_->launch(&config, kernel.function_, arguments, nullptr);
  if (status == DriverStatus::kSuccess) return {};  // the message is worth its time only on failure
  return DriverError(
      *driver_, status,
      fmt::format("launch {} with {} x {} x {} thread blocks of {} threads and {} bytes",
                  kernel.name_, shape.grid_x, shape.grid_y, shape.grid_z, shape.threads,
                  shape.shared_bytes));
}

Result<void> DeviceStream::Record(const DeviceEvent& event) {
  return Check(*driver_, driver_->event_record(event.event_, stream_), "record an event");
}

Result<void> DeviceStream::Synchronize() {
  return Check(*driver_, driver_->stream_synchronize(stream_), "wait for the GPU's work");
}

Result<void> DeviceStream::BeginCapture() {
  constexpr int kThreadLocal = 1;  // other threads may allocate meanwhile
  return Check(*driver_, driver_->capture_begin(stream_, kThreadLocal), "begin a capture");
}

Result<DeviceGraph> DeviceStream::EndCapture() {
  void* graph = nullptr;
  KV8_RETURN_IF_ERROR(Check(*driver_, driver_->capture_end(stream_, &graph), "end a capture"));
  DeviceGraph result;
  const DriverStatus status = driver_->graph_instantiate(&result.executable_, graph, 0);
  driver_->graph_destroy(graph);
  KV8_RETURN_IF_ERROR(Check(*driver_, status, "make captured work launchable"));
  result.driver_ = driver_;
  return result;
}

Result<void> DeviceStream::Launch(const DeviceGraph& graph) {
  return Check(*driver_, driver_->graph_launch(graph.executable_, stream_), "launch a graph");
}

}  // namespace kv8
