// Temporary buffers of the CPU ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
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
  constexpr std::align_val_t kAlign{kCacheLine};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlign); }
  };
  struct Buffer {
    std::unique_ptr<std::byte, Free> data;
    std::int64_t capacity = 0;
  };
  thread_local Buffer buffers[static_cast<int>(ScratchSlot::kCount)];
  Buffer& buffer = buffers[static_cast<int>(slot)];
  if (buffer.capacity < bytes) {
    buffer = {};
    buffer.data.reset(
        static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlign)));
    buffer.capacity = bytes;
  }
  return buffer.data.get();
}

}  // namespace scratch_detail

/// `count` elements, 64-byte aligned, valid until the thread's next call with this slot.
template <class T = float>
T* Scratch(ScratchSlot slot, std::int64_t count) {
  static_assert(std::is_trivial_v<T>);
  return static_cast<T*>(scratch_detail::Bytes(slot, count * std::int64_t{sizeof(T)}));
}

}  // namespace kv8
