// What outlives a pass on the GPU: K/V and index pools, recurrent states of all slots, the states
// kept for rollbacks, and the copies between them.
#pragma once

#include <vector>

#include "device/arena.h"
#include "device/device.h"
#include "kvcache/kv_cache.h"
#include "kvcache/state_layout.h"
#include "model/executor.h"
#include "ops/cuda/device_types.h"
#include "ops/cuda/slots.h"

namespace kv8::cuda {

/// Arrays that are copied together.
struct CopySet {
  const CopyArray* arrays = nullptr;  // device memory
  std::int32_t count = 0;
  std::int64_t largest = 0;  // item's bytes
};

/// Every copy between arrays of the state. `pack` is a packed state, or a page as KvCache::CopyOut
/// has it.
struct StateCopies {
  CopySet state_to_state, state_to_pack, pack_to_state;
  CopySet trail_to_state, trail_to_pack;
  std::vector<CopySet> gdn_to_trail;  // by GDN layer
  CopySet page_to_page, page_to_pack, pack_to_page;
};

/// Bytes of a DeviceState without its pools, by owner.
struct StateMemory {
  std::int64_t states = 0;
  std::int64_t rollback = 0;
  std::int64_t other = 0;  // lists of copies, counters, the pack

  std::int64_t total() const { return states + rollback + other; }
};

class DeviceState {
 public:
  /// Pages that the pack holds at once.
  static constexpr std::int64_t kPackPages = 16;

  static StateMemory Plan(const StateLayout& layout, const ExecutorLimits& limits);
  /// Takes pools and states, all empty.
  static Result<DeviceState> Create(Device& device, DeviceStream& stream, const StateLayout& layout,
                                    const ExecutorLimits& limits);

  /// A layer's array, [slots + 1] of StateLayout's.
  template <class T>
  T* Slots(StateKind kind, int layer) const {
    return reinterpret_cast<T*>(slots_[layout_.IndexOf(kind, layer)]);
  }
  /// The same of the states kept for rollbacks, [slots * drafts]; there are no index rings.
  template <class T>
  T* Trails(StateKind kind, int layer) const {
    return reinterpret_cast<T*>(trails_[recurrent_.IndexOf(kind, layer)]);
  }
  const StateCopies& copies() const { return copies_; }
  /// A slot behind those in use, whose sequence stays empty.
  std::int32_t empty_slot() const { return empty_slot_; }
  KvPoolView Kv(int layer) const;
  IndexPoolView Index(int layer) const;
  /// A layer's SaturationCount.
  unsigned long long* saturation(int layer) const { return saturation_ + 4 * layer; }
  std::byte* pack() const { return pack_; }

 private:
  explicit DeviceState(const StateLayout& layout)
      : layout_(layout), recurrent_(layout.Recurrent()) {}
  StateMemory Take(Arena& arena, const ExecutorLimits& limits);
  Result<void> Upload(DeviceStream& stream);

  StateLayout layout_, recurrent_;
  KvCachePlan cache_;
  std::vector<StoreScales> scales_;
  std::int32_t empty_slot_ = 0;
  DeviceMemory pools_;                      // all K/V pools, then all index pools
  DeviceMemory memory_;                     // all else
  std::vector<std::byte*> slots_, trails_;  // as the layouts have them
  StateCopies copies_;
  unsigned long long* saturation_ = nullptr;
  std::byte* pack_ = nullptr;
  CopyArray* copy_arrays_ = nullptr;
};

}  // namespace kv8::cuda
