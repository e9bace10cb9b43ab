#include "plan/this_machine.h"

#include <unistd.h>

#include "device/device.h"

namespace kv8 {

Result<LocalMachine> ThisMachine() {
  const auto gpus = Device::List();
  if (!gpus.ok() || gpus->empty()) {
    const std::int64_t bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
    return LocalMachine{DeviceKind::kCpu, {{.name = "cpu", .memory = bytes}}};
  }
  LocalMachine machine{.kind = DeviceKind::kCuda};
  for (const DeviceInfo& gpu : *gpus) {
    KV8_ASSIGN_OR_RETURN(const auto device, Device::Open(gpu.ordinal));
    KV8_ASSIGN_OR_RETURN(const DeviceMemoryInfo now, device->Memory());
    machine.devices.push_back({.name = gpu.name, .memory = now.free_bytes});
  }
  return machine;
}

}  // namespace kv8
