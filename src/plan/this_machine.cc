#include "plan/this_machine.h"

#include "base/machine_memory.h"
#include "device/device.h"

namespace kv8 {

Result<LocalMachine> ThisMachine() {
  const auto gpus = Device::List();
  if (!gpus.ok() || gpus->empty()) {
    return LocalMachine{DeviceKind::kCpu, {{.name = "cpu", .memory = MachineMemory()}}};
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
