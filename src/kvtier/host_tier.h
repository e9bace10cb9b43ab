// The tier of the K/V cache in host memory: which units are there, and which make room.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv8/statistics.h"
#include "kv8/types.h"
#include "kvcache/prefix_tree.h"
#include "kvtier/disk_store.h"
#include "kvtier/kv_unit.h"
#include "kvtier/prefix_keys.h"

namespace kv8 {

/// A unit to be filled from the device before anything there is written.
struct TierWrite {
  std::shared_ptr<KvUnit> unit;
  std::vector<PageId> pages;  // of the unit; empty: only its state is wanted
  SnapshotId snapshot{};
};

/// A beginning that units supply.
struct TierHit {
  std::int64_t pages = 0;                            // 0: none
  std::vector<std::shared_ptr<const KvUnit>> chain;  // ascending; the last one has the state
};

struct HostTierOptions {
  UnitLayout layout;
  std::int64_t budget = 0;  // bytes of all units
  bool with_draft = false;
  std::string binding;  // see KeysOf
};

/// Room is made in this order: states in the middle of a conversation that went on, the oldest
/// first; then whole units that no other goes on from, the least recently used first, where one
/// whose conversation has come back before counts as used later than one that never did. Beginnings
/// that several conversations share stay as long as one of these does.
class HostTier {
 public:
  /// Units that make room go to `store`, where there is one, and come back from it.
  explicit HostTier(HostTierOptions options, std::unique_ptr<DiskStore> store = nullptr)
      : options_(std::move(options)), store_(std::move(store)) {}

  /// A state leaves the device: what to fill so that it stays; nullopt when it is here already or
  /// there is no room for it.
  std::optional<TierWrite> Take(const LeavingPrefix& leaving);
  /// What could not be filled is forgotten.
  void Forget(const KvUnit& unit);

  /// The longest beginning of more than `above` and at most `max_pages` pages that ends in a unit
  /// with state, when units hold all pages from `known` on. Counts as a use.
  TierHit Find(std::span<const TokenId> prompt, std::int64_t max_pages, std::uint64_t group,
               std::int64_t known, std::int64_t above);

  /// What Find returned was used: a beginning of `pages` pages, `copied` of them from here.
  void OnHit(std::int64_t pages, std::int64_t copied);

  /// Keeps in the store what is not there yet: to be called at the end.
  void StoreAll();
  bool has_store() const { return store_ != nullptr; }

  KvTierStatistics statistics() const;

 private:
  struct Entry {
    std::shared_ptr<KvUnit> unit;
    std::uint64_t used = 0;
    bool returned = false;  // somebody went on from here
  };
  using Entries = std::unordered_map<std::string, Entry>;  // by exact key

  const UnitName* ByExact(const std::string& exact, bool with_state) const;
  const UnitName* ByEnd(const std::string& end, const std::string& exact) const;
  TierHit ChainTo(const UnitName& last, const PrefixKeys& keys, std::int64_t known);
  std::shared_ptr<KvUnit> Fetch(const UnitName& name, bool with_state);
  void Spill(const KvUnit& unit);
  std::optional<TierWrite> TakeState(Entry& entry, SnapshotId snapshot);
  bool MakeRoom(std::int64_t bytes);
  bool GiveUpState();
  bool GiveUpUnit();
  void Add(Entry entry);
  void Remove(Entries::iterator entry);
  int Children(const std::string& exact) const;

  HostTierOptions options_;
  std::unique_ptr<DiskStore> store_;  // null: none
  std::int64_t used_ = 0;             // bytes; counts what a step still reads too
  std::uint64_t clock_ = 0;
  Entries entries_;
  std::multimap<std::string, std::string> exact_of_;  // by key of the end
  std::unordered_map<std::string, int> children_;     // of units, by exact key of their parent
  KvTierStatistics counts_;
};

}  // namespace kv8
