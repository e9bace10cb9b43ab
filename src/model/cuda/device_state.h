// What outlives a pass on the GPU: K/V and index pools, recurrent states of all slots, the states
// that verification may go back to, and the copies between them.
#pragma once

#include <vector>

#include "device/arena.h"
#include "device/device.h"
#include "kvcache/kv_cache.h"
#include "kvcache/sequence_state.h"
#include "model/executor.h"
#include "ops/cuda/device_types.h"
#include "ops/cuda/slots.h"

namespace kv8::cuda {

/// Arrays of one kind of state, by layer.
struct StateArrays {
  std::vector<float*> gdn_conv, gdn_state, ple_conv, index_ring;
  std::vector<std::int32_t*> ple_context;
};

/// Arrays that are copied together.
struct CopySet {
  const CopyArray* arrays = nullptr;  // device memory
  std::int32_t count = 0;
  std::int64_t largest = 0;  // item's bytes

  /// Arrays [first, first + n).
  CopySet Part(std::int32_t first, std::int32_t n) const { return {arrays + first, n, largest}; }
};

/// Every copy between arrays of the state. `pack` is a state or a block in a row, as
/// SequenceState::CopyOut and KvCache::CopyOut have it.
struct StateCopies {
  CopySet state_to_state, state_to_pack, pack_to_state;
  CopySet trail_to_state, trail_to_pack;
  CopySet state_to_trail;  // per GDN layer: convolution, recurrence; nothing else
  CopySet block_to_block, block_to_pack, pack_to_block;
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
  /// Blocks that the pack holds at once.
  static constexpr std::int64_t kPackBlocks = 16;

  static StateMemory Plan(const StateLayout& layout, const ExecutorLimits& limits);
  /// Takes pools and states, all empty. `scales` as in KvCache::Create.
  static Result<DeviceState> Create(Device& device, DeviceStream& stream, const StateLayout& layout,
                                    const ExecutorLimits& limits, std::vector<StoreScales> scales);

  const StateArrays& slots() const { return slots_; }
  const StateArrays& trails() const { return trails_; }  // [slots * drafts]; no index rings
  const StateCopies& copies() const { return copies_; }
  /// A slot behind those in use, whose sequence stays empty.
  std::int32_t empty_slot() const { return empty_slot_; }
  KvPoolView Kv(int layer) const;
  IndexPoolView Index(int layer) const;
  /// Clipped K and V of a layer.
  unsigned long long* saturation(int layer) const { return saturation_ + 2 * layer; }
  std::byte* pack() const { return pack_; }

 private:
  DeviceState() = default;
  StateMemory Take(Arena& arena, const StateLayout& layout, const ExecutorLimits& limits);
  Result<void> Upload(DeviceStream& stream, const StateLayout& layout);

  KvCachePlan cache_;
  std::vector<StoreScales> scales_;
  std::int32_t empty_slot_ = 0;
  DeviceMemory pools_;   // all K/V pools, then all index pools
  DeviceMemory memory_;  // all else
  StateArrays slots_, trails_;
  StateCopies copies_;
  unsigned long long* saturation_ = nullptr;
  std::byte* pack_ = nullptr;
  CopyArray* copy_arrays_ = nullptr;
};

}  // namespace kv8::cuda
