#include "model/cuda/device_state.h"

#include <algorithm>
#include <utility>

namespace kv8::cuda {
namespace {

constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));
constexpr auto kIdBytes = static_cast<std::int64_t>(sizeof(TokenId));

/// One array as a copy sees it.
struct Items {
  unsigned char* first = nullptr;
  std::int64_t stride = 0;
  std::int64_t bytes = 0;
};

template <class T>
Items Dense(T* array, std::int64_t bytes) {
  return {reinterpret_cast<unsigned char*>(array), bytes, bytes};
}

StateArrays TakeStates(Arena& arena, const StateLayout& layout, std::int64_t count) {
  StateArrays arrays;
  for (std::int64_t i = 0; i < layout.gdn_layers; ++i) {
    arrays.gdn_conv.push_back(arena.Take<float>(count * layout.gdn_conv_floats()));
    arrays.gdn_state.push_back(arena.Take<float>(count * layout.gdn_state_floats()));
  }
  for (std::int64_t i = 0; i < layout.ple_layers; ++i) {
    arrays.ple_conv.push_back(arena.Take<float>(count * layout.ple_conv_floats()));
    arrays.ple_context.push_back(arena.Take<std::int32_t>(count * layout.ple_context));
  }
  for (std::int64_t i = 0; i < layout.index_rings; ++i) {
    arrays.index_ring.push_back(arena.Take<float>(count * layout.ring_floats()));
  }
  return arrays;
}

StateLayout WithoutRings(StateLayout layout) {
  layout.index_rings = 0;
  return layout;
}

/// The arrays of a state in the order of SequenceState::CopyOut, GDN first.
std::vector<Items> StateItems(const StateArrays& arrays, const StateLayout& layout) {
  std::vector<Items> items;
  for (std::size_t i = 0; i < arrays.gdn_conv.size(); ++i) {
    items.push_back(Dense(arrays.gdn_conv[i], layout.gdn_conv_floats() * kFloatBytes));
    items.push_back(Dense(arrays.gdn_state[i], layout.gdn_state_floats() * kFloatBytes));
  }
  for (float* conv : arrays.ple_conv) {
    items.push_back(Dense(conv, layout.ple_conv_floats() * kFloatBytes));
  }
  for (std::int32_t* context : arrays.ple_context) {
    items.push_back(Dense(context, layout.ple_context * kIdBytes));
  }
  for (float* ring : arrays.index_ring) {
    items.push_back(Dense(ring, layout.ring_floats() * kFloatBytes));
  }
  return items;
}

/// The pools in the order of KvCache::CopyOut.
std::vector<Items> BlockItems(std::byte* pools, const KvCachePlan& cache) {
  std::vector<Items> items;
  for (const std::int64_t bytes : {cache.kv.block_bytes(), cache.index.block_bytes()}) {
    for (std::int64_t layer = 0; layer < cache.layers; ++layer) {
      items.push_back(Dense(pools, bytes));
      pools += cache.blocks * bytes;
    }
  }
  return items;
}

/// The same items one after another in the pack, where item i of each follows `stride` bytes later.
std::vector<Items> Packed(const std::vector<Items>& items, std::byte* pack, std::int64_t stride) {
  std::vector<Items> packed;
  auto* next = reinterpret_cast<unsigned char*>(pack);
  for (const Items& item : items) {
    packed.push_back({next, stride, item.bytes});
    next += item.bytes;
  }
  return packed;
}

/// Collects sets of copies into one list; `list` is where it will stand on the device.
class CopyList {
 public:
  explicit CopyList(CopyArray* list) : list_(list) {}

  /// As many as `from` and `to` both have.
  CopySet Add(std::span<const Items> from, std::span<const Items> to) {
    CopySet set{list_ + arrays.size()};
    for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
      arrays.push_back({from[i].first, to[i].first, from[i].stride, to[i].stride, from[i].bytes});
      set.largest = std::max(set.largest, from[i].bytes);
      ++set.count;
    }
    return set;
  }

  std::vector<CopyArray> arrays;

 private:
  CopyArray* list_;
};

/// At least the length of the list.
std::int64_t CopyCount(const StateLayout& layout, const KvCachePlan& cache) {
  constexpr std::int64_t kStateSets = 6, kBlockSets = 3;
  return kStateSets * (2 * layout.gdn_layers + 2 * layout.ple_layers + layout.index_rings) +
         kBlockSets * 2 * cache.layers;
}

}  // namespace

StateMemory DeviceState::Take(Arena& arena, const StateLayout& layout,
                              const ExecutorLimits& limits) {
  StateMemory memory;
  slots_ = TakeStates(arena, layout, limits.slots + 1);
  memory.states = arena.bytes();
  trails_ = TakeStates(arena, WithoutRings(layout), std::int64_t{limits.slots} * limits.drafts);
  memory.rollback = arena.bytes() - memory.states;
  saturation_ = arena.Take<unsigned long long>(2 * limits.cache.layers);
  pack_ = arena.Take<std::byte>(std::max(layout.bytes(), kPackBlocks * limits.cache.block_bytes()));
  copy_arrays_ = arena.Take<CopyArray>(CopyCount(layout, limits.cache));
  memory.other = arena.bytes() - memory.states - memory.rollback;
  return memory;
}

StateMemory DeviceState::Plan(const StateLayout& layout, const ExecutorLimits& limits) {
  Arena arena;
  return DeviceState().Take(arena, layout, limits);
}

Result<DeviceState> DeviceState::Create(Device& device, DeviceStream& stream,
                                        const StateLayout& layout, const ExecutorLimits& limits,
                                        std::vector<StoreScales> scales) {
  DeviceState state;
  state.cache_ = limits.cache;
  state.scales_ = std::move(scales);
  state.empty_slot_ = limits.slots;
  KV8_ASSIGN_OR_RETURN(
      state.pools_,
      device.Allocate(limits.cache.kv_bytes() + limits.cache.index_bytes(), "the K/V cache"));
  KV8_ASSIGN_OR_RETURN(state.memory_,
                       device.Allocate(Plan(layout, limits).total(), "recurrent states"));
  Arena arena(state.memory_.data());
  state.Take(arena, layout, limits);
  KV8_RETURN_IF_ERROR(state.Upload(stream, layout));
  return state;
}

/// Empty states and the list of copies.
Result<void> DeviceState::Upload(DeviceStream& stream, const StateLayout& layout) {
  KV8_RETURN_IF_ERROR(stream.Fill(memory_.data(), std::byte{0}, memory_.bytes()));
  const std::vector<TokenId> eos(static_cast<std::size_t>((empty_slot_ + 1) * layout.ple_context),
                                 layout.eos);
  for (std::int32_t* context : slots_.ple_context) {
    KV8_RETURN_IF_ERROR(stream.Copy(context, eos.data(), std::ssize(eos) * kIdBytes));
  }
  const std::vector<Items> states = StateItems(slots_, layout);
  const std::vector<Items> trails = StateItems(trails_, layout);
  const std::vector<Items> blocks = BlockItems(pools_.data(), cache_);
  const std::vector<Items> packed_state = Packed(states, pack_, 0);
  const std::vector<Items> packed_blocks = Packed(blocks, pack_, cache_.block_bytes());
  const auto gdn = static_cast<std::size_t>(2 * layout.gdn_layers);
  CopyList list(copy_arrays_);
  copies_ = {.state_to_state = list.Add(states, states),
             .state_to_pack = list.Add(states, packed_state),
             .pack_to_state = list.Add(packed_state, states),
             .trail_to_state = list.Add(trails, states),
             .trail_to_pack = list.Add(trails, packed_state),
             .state_to_trail = list.Add(std::span(states).first(gdn), trails),
             .block_to_block = list.Add(blocks, blocks),
             .block_to_pack = list.Add(blocks, packed_blocks),
             .pack_to_block = list.Add(packed_blocks, blocks)};
  KV8_RETURN_IF_ERROR(
      stream.Copy(copy_arrays_, list.arrays.data(),
                  std::ssize(list.arrays) * static_cast<std::int64_t>(sizeof(CopyArray))));
  return stream.Synchronize();  // the sources go
}

KvPoolView DeviceState::Kv(int layer) const {
  const StoreScales scales =
      scales_.empty() ? StoreScales{} : scales_[static_cast<std::size_t>(layer)];
  std::byte* const pool = pools_.data() + layer * cache_.blocks * cache_.kv.block_bytes();
  return {.data = reinterpret_cast<unsigned char*>(pool),
          .type = cache_.kv.dtype == KvDType::kE4M3 ? PageType::kE4M3 : PageType::kFp16,
          .kv_heads = static_cast<std::int32_t>(cache_.kv.kv_heads),
          .head_dim = static_cast<std::int32_t>(cache_.kv.head_dim),
          .k_scale = scales.k,
          .v_scale = scales.v};
}

IndexPoolView DeviceState::Index(int layer) const {
  std::byte* const pool =
      pools_.data() + cache_.kv_bytes() + layer * cache_.blocks * cache_.index.block_bytes();
  return {.data = reinterpret_cast<std::uint16_t*>(pool),
          .index_dim = static_cast<std::int32_t>(cache_.index.index_dim)};
}

}  // namespace kv8::cuda
