#include "kvtier/kv_unit.h"

#include <new>

namespace kv8 {

IoBuffer::IoBuffer(std::size_t bytes)
    : memory_(
          static_cast<std::byte*>(::operator new (CapacityFor(bytes), std::align_val_t{kBytes}))),
      bytes_(bytes) {}

void IoBuffer::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kBytes});
}

}  // namespace kv8
