// Temporary buffers of the CPU ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/aligned.h"

namespace kv8 {

/// Memory that an op needs only while it runs. Buffers belong to the calling thread and keep their
/// largest size, so that a steady load allocates nothing.
///
/// One buffer per purpose: a caller and the code that it calls must use different slots. Contents
/// are whatever the last user left.
enum class ScratchSlot : int {
  kLinearPanel,  // weight rows of one panel, as floats, or rows of one product's x
  kLinearRows,   // rows of the x of a whole call
  kRope,         // cosines and sines of one position
  kHyperMix,
  kMoe,         // activations of the whole batch
  kMoeRoutes,   // which row goes to which expert
  kMoeParts,    // one row's results to sum: where they lie,
  kMoeFactors,  // and their weights
  kPle,
  kPleWorker,
  kGdnWorker,
  kIndex,
  kSelect,
  kSelectWorker,
  kAttention,
  kAttentionTokens,  // where they lie
  kCount,
};

namespace scratch_detail {

inline void* Bytes(ScratchSlot slot, std::int64_t bytes) {
  thread_local AlignedVector<std::byte> buffers[static_cast<int>(ScratchSlot::kCount)];
  AlignedVector<std::byte>& buffer = buffers[static_cast<int>(slot)];
  const auto size = static_cast<std::size_t>(bytes);
  if (buffer.size() < size) {
    buffer = {};  // the old one is gone before the new one comes
    buffer = AlignedVector<std::byte>(size);
  }
  return buffer.data();
}

}  // namespace scratch_detail

/// `count` elements that begin at a cache line, valid until the thread's next call with this slot.
template <class T = float>
T* Scratch(ScratchSlot slot, std::int64_t count) {
  static_assert(std::is_trivial_v<T>);
  return static_cast<T*>(scratch_detail::Bytes(slot, count * std::int64_t{sizeof(T)}));
}

}  // namespace kv8
