#include "model/cuda/device_state.h"

#include <algorithm>
#include <utility>

namespace kv8::cuda {
namespace {

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

std::vector<std::byte*> TakeStates(Arena& arena, const StateLayout& layout, std::int64_t count) {
  std::vector<std::byte*> arrays;
  for (const StateArray& array : layout.arrays()) {
    arrays.push_back(arena.Take<std::byte>(count * array.bytes));
  }
  return arrays;
}

std::vector<Items> StateItems(const std::vector<std::byte*>& arrays, const StateLayout& layout) {
  std::vector<Items> items;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    items.push_back(Dense(arrays[i], layout.arrays()[i].bytes));
  }
  return items;
}

/// The state, packed, at the pack's beginning.
std::vector<Items> PackedState(const StateLayout& layout, std::byte* pack) {
  std::vector<Items> items;
  for (const StateArray& array : layout.arrays()) {
    items.push_back({reinterpret_cast<unsigned char*>(pack + array.offset), 0, array.bytes});
  }
  return items;
}

/// The pools in the order of KvCache::CopyOut.
std::vector<Items> PageItems(std::byte* pools, const KvCachePlan& cache) {
  std::vector<Items> items;
  for (const std::int64_t bytes : {cache.kv.page_bytes(), cache.index.page_bytes()}) {
    for (std::int64_t layer = 0; layer < cache.layers; ++layer) {
      items.push_back(Dense(pools, bytes));
      pools += cache.pages * bytes;
    }
  }
  return items;
}

/// The pieces of a page one after another in the pack, page i `stride` bytes behind page i - 1.
std::vector<Items> PackedPages(const std::vector<Items>& items, std::byte* pack,
                               std::int64_t stride) {
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
  constexpr std::int64_t kStateSets = 6, kPageSets = 3;
  return kStateSets * std::ssize(layout.arrays()) + kPageSets * 2 * cache.layers;
}

}  // namespace

StateMemory DeviceState::Take(Arena& arena, const ExecutorLimits& limits) {
  StateMemory memory;
  slots_ = TakeStates(arena, layout_, limits.slots + 1);
  memory.states = arena.bytes();
  trails_ = TakeStates(arena, recurrent_, std::int64_t{limits.slots} * limits.drafts);
  memory.rollback = arena.bytes() - memory.states;
  saturation_ = arena.Take<unsigned long long>(4 * limits.cache.layers);
  pack_ = arena.Take<std::byte>(std::max(layout_.bytes(), kPackPages * limits.cache.page_bytes()));
  copy_arrays_ = arena.Take<CopyArray>(CopyCount(layout_, limits.cache));
  memory.other = arena.bytes() - memory.states - memory.rollback;
  return memory;
}

StateMemory DeviceState::Plan(const StateLayout& layout, const ExecutorLimits& limits) {
  Arena arena;
  return DeviceState(layout).Take(arena, limits);
}

Result<DeviceState> DeviceState::Create(Device& device, DeviceStream& stream,
                                        const StateLayout& layout, const ExecutorLimits& limits) {
  DeviceState state(layout);
  state.cache_ = limits.cache;
  state.scales_ = limits.scales;
  state.empty_slot_ = limits.slots;
  KV8_ASSIGN_OR_RETURN(
      state.pools_,
      device.Allocate(limits.cache.kv_bytes() + limits.cache.index_bytes(), "the K/V cache"));
  KV8_ASSIGN_OR_RETURN(state.memory_,
                       device.Allocate(Plan(layout, limits).total(), "recurrent states"));
  Arena arena(state.memory_.data());
  state.Take(arena, limits);
  KV8_RETURN_IF_ERROR(state.Upload(stream));
  return state;
}

/// Empty states and the list of copies.
Result<void> DeviceState::Upload(DeviceStream& stream) {
  KV8_RETURN_IF_ERROR(stream.Fill(memory_.data(), std::byte{0}, memory_.bytes()));
  std::vector<TokenId> eos;  // outlives the copies
  for (int i = 0; i < layout_.Layers(StateKind::kPleContext); ++i) {
    const std::int64_t bytes = (empty_slot_ + 1) * layout_.Of(StateKind::kPleContext, i).bytes;
    eos.resize(static_cast<std::size_t>(bytes) / sizeof(TokenId), layout_.eos());
    KV8_RETURN_IF_ERROR(stream.Copy(Slots<TokenId>(StateKind::kPleContext, i), eos.data(), bytes));
  }
  const std::vector<Items> states = StateItems(slots_, layout_);
  const std::vector<Items> trails = StateItems(trails_, recurrent_);
  const std::vector<Items> pages = PageItems(pools_.data(), cache_);
  const std::vector<Items> packed_state = PackedState(layout_, pack_);
  const std::vector<Items> packed_pages = PackedPages(pages, pack_, cache_.page_bytes());
  CopyList list(copy_arrays_);
  copies_ = {.state_to_state = list.Add(states, states),
             .state_to_pack = list.Add(states, packed_state),
             .pack_to_state = list.Add(packed_state, states),
             .trail_to_state = list.Add(trails, states),
             .trail_to_pack = list.Add(trails, packed_state),
             .gdn_to_trail = {},
             .page_to_page = list.Add(pages, pages),
             .page_to_pack = list.Add(pages, packed_pages),
             .pack_to_page = list.Add(packed_pages, pages)};
  for (int i = 0; i < layout_.Layers(StateKind::kGdnState); ++i) {
    std::vector<Items> from, to;
    for (const StateKind kind : {StateKind::kGdnConv, StateKind::kGdnState}) {
      from.push_back(states[layout_.IndexOf(kind, i)]);
      to.push_back(trails[recurrent_.IndexOf(kind, i)]);
    }
    copies_.gdn_to_trail.push_back(list.Add(from, to));
  }
  KV8_RETURN_IF_ERROR(
      stream.Copy(copy_arrays_, list.arrays.data(),
                  std::ssize(list.arrays) * static_cast<std::int64_t>(sizeof(CopyArray))));
  return stream.Synchronize();  // the sources are local
}

KvPoolView DeviceState::Kv(int layer) const {
  const StoreScales scales =
      scales_.empty() ? StoreScales{} : scales_[static_cast<std::size_t>(layer)];
  std::byte* const pool = pools_.data() + layer * cache_.pages * cache_.kv.page_bytes();
  return {.data = reinterpret_cast<unsigned char*>(pool),
          .type = cache_.kv.dtype == KvDType::kE4M3 ? KvElement::kE4M3 : KvElement::kFp16,
          .kv_heads = static_cast<std::int32_t>(cache_.kv.kv_heads),
          .head_dim = static_cast<std::int32_t>(cache_.kv.head_dim),
          .k_scale = scales.k,
          .v_scale = scales.v};
}

IndexPoolView DeviceState::Index(int layer) const {
  std::byte* const pool =
      pools_.data() + cache_.kv_bytes() + layer * cache_.pages * cache_.index.page_bytes();
  return {.data = reinterpret_cast<std::uint16_t*>(pool),
          .index_dim = static_cast<std::int32_t>(cache_.index.index_dim)};
}

}  // namespace kv8::cuda
