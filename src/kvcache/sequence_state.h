// Per-sequence state in host memory that is not paged.
#pragma once

#include <cstddef>
#include <span>

#include "base/aligned.h"
#include "kvcache/state_layout.h"

namespace kv8 {

/// State of one sequence, packed; starts as that of an empty one. Move-only: copies are large.
class SequenceState {
 public:
  /// `layout` must outlive the state.
  explicit SequenceState(const StateLayout& layout);
  SequenceState(SequenceState&&) = default;
  SequenceState& operator=(SequenceState&&) = default;

  std::int64_t bytes() const { return layout_->bytes(); }
  /// Back to the empty sequence.
  void Reset();
  /// All bytes, as SequenceState and a device's copies have them.
  std::span<const std::byte> packed() const { return memory_; }
  /// Takes over `packed`: a whole state, or its recurrent part, which is the beginning.
  void CopyIn(std::span<const std::byte> packed);

  /// An array of floats.
  std::span<float> Floats(StateKind kind, int layer) { return Array<float>(kind, layer); }
  /// The last ids that an n-gram memory has seen, oldest first.
  std::span<TokenId> Context(int layer) { return Array<TokenId>(StateKind::kPleContext, layer); }

 private:
  template <class T>
  std::span<T> Array(StateKind kind, int layer) {
    static_assert(sizeof(T) == 4);
    const StateArray& array = layout_->Of(kind, layer);
    return {reinterpret_cast<T*>(memory_.data() + array.offset),
            static_cast<std::size_t>(array.bytes) / sizeof(T)};
  }

  const StateLayout* layout_;
  AlignedVector<std::byte> memory_;
};

}  // namespace kv8
