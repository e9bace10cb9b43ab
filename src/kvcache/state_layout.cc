#include "kvcache/state_layout.h"

#include <cassert>

namespace kv8 {

void StateLayout::Add(StateKind kind, std::int64_t elements) {
  constexpr std::int64_t kElementBytes = 4;
  assert(kind == StateKind::kIndexRing || Layers(StateKind::kIndexRing) == 0);
  const std::int64_t bytes = elements * kElementBytes;
  const int layer = Layers(kind);
  by_kind_[static_cast<std::size_t>(kind)].push_back(arrays_.size());
  arrays_.push_back({kind, layer, bytes, bytes_});
  bytes_ += bytes;
}

StateLayout StateLayout::Recurrent() const {
  StateLayout recurrent(eos_);
  for (const StateArray& array : arrays_) {
    if (array.kind != StateKind::kIndexRing) recurrent.Add(array.kind, array.bytes / 4);
  }
  return recurrent;
}

}  // namespace kv8
