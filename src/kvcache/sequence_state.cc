#include "kvcache/sequence_state.h"

#include <algorithm>

namespace kv8 {

SequenceState::SequenceState(const StateLayout& layout)
    : layout_(&layout), memory_(static_cast<std::size_t>(layout.bytes())) {
  Reset();
}

void SequenceState::Reset() {
  std::ranges::fill(memory_, std::byte{0});
  for (int i = 0; i < layout_->Layers(StateKind::kPleContext); ++i) {
    std::ranges::fill(Context(i), layout_->eos());
  }
}

void SequenceState::CopyIn(std::span<const std::byte> packed) {
  std::ranges::copy(packed, memory_.begin());
}

}  // namespace kv8
