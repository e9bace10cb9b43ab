// The memory of the machine.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace kv8 {

/// Bytes of physical memory, whoever uses them.
inline std::int64_t MachineMemory() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
}

}  // namespace kv8
