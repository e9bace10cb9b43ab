// Temporary buffers of the CPU ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace kv8 {

/// Memory that an op needs only while it runs. Buffers belong to the calling thread and keep their
/// largest size, so that a steady load allocates nothing.
///
/// One buffer per purpose: a caller and the code that it calls must use different slots. Contents
/// are whatever the last user left.
enum class ScratchSlot : int {
  kLinearPanel,  // weight rows of one panel, as floats
  kHyperMix,
  kMoe,        // the caller's rows: logits, routes, gathered inputs, expert outputs
  kMoeWorker,  // one thread's share
  kPle,
  kGdn,
  kGdnWorker,
  kIndex,
  kSelect,
  kAttention,
  kCount,
};

/// `count` floats, 64-byte aligned, valid until the thread's next call with this slot.
inline float* Scratch(ScratchSlot slot, std::int64_t count) {
  constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlign); }
  };
  struct Buffer {
    std::unique_ptr<float, Free> data;
    std::int64_t capacity = 0;
  };
  thread_local Buffer buffers[static_cast<int>(ScratchSlot::kCount)];
  Buffer& buffer = buffers[static_cast<int>(slot)];
  if (buffer.capacity < count) {
    buffer.data.reset();
    buffer.capacity = 0;
    const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
    buffer.data.reset(static_cast<float*>(::operator new(bytes, kAlign)));
    buffer.capacity = count;
  }
  return buffer.data.get();
}

}  // namespace kv8
