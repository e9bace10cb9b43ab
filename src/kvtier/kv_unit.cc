#include "kvtier/kv_unit.h"

#include <algorithm>
#include <new>

namespace kv8 {

IoBuffer::IoBuffer(std::size_t bytes)
    : memory_(
          static_cast<std::byte*>(::operator new (CapacityFor(bytes), std::align_val_t{kBytes}))),
      bytes_(bytes) {
  std::fill(memory_.get() + bytes, memory_.get() + capacity(), std::byte{0});
}

void IoBuffer::Free::operator()(std::byte* memory) const {
  ::operator delete (memory, std::align_val_t{kBytes});
}

}  // namespace kv8
